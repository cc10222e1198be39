// An address in the L1 of a core, by the core's place in the grid.
inline uint64_t on_core(uint32_t x, uint32_t y, uint32_t address) {
    return get_noc_addr(worker_logical_col_to_virtual_col[x], worker_logical_row_to_virtual_row[y], address);
}

// The same for a rectangle, last row and column included. A NoC goes through it in its own direction.
inline uint64_t on_cores(uint32_t x0, uint32_t y0, uint32_t x1, uint32_t y1, uint32_t address) {
    const uint32_t left = worker_logical_col_to_virtual_col[x0], right = worker_logical_col_to_virtual_col[x1];
    const uint32_t top = worker_logical_row_to_virtual_row[y0], bottom = worker_logical_row_to_virtual_row[y1];
    if (noc_index == 0) {
        return get_noc_multicast_addr(left, top, right, bottom, address);
    }
    return get_noc_multicast_addr(right, bottom, left, top, address);
}

// A semaphore of this core.
inline volatile tt_l1_ptr uint32_t* semaphore_word(uint32_t id) {
    return reinterpret_cast<volatile tt_l1_ptr uint32_t*>(get_semaphore(id));
}
