"""Below the graph: Tensix kernels (`tensix`) and AMD GPU assembly (`amdgpu`), both on `optimizer.regalloc`."""
