"""Rules of ops that slide a window over an image: convolutions, pools, upsampling, sampling grids."""
