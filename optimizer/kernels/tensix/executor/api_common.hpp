// The functions of the kernel API that every kernel has: synchronisation, packing, the common init, data movement.
#pragma once
#include "api_types.hpp"

using tensix::cb_pop_front; using tensix::cb_push_back; using tensix::cb_reserve_back;
using tensix::cb_wait_front; using tensix::tile_regs_acquire; using tensix::tile_regs_commit;
using tensix::tile_regs_release; using tensix::tile_regs_wait;
inline void reduce_uninit(uint32_t icb = 0) { (void)icb; tensix::dst.mask = tensix::Mask::None; }
template <SrcOrder src_order = SrcOrder::Regular>
inline void compute_kernel_hw_startup(uint32_t icb0, uint32_t icb1, uint32_t ocb) {
    constexpr bool reversed = src_order == SrcOrder::Reverse;
    tensix::startup("compute_kernel_hw_startup", reversed ? icb1 : icb0, reversed ? icb0 : icb1, ocb);
}
inline std::string block_key(uint32_t a, uint32_t b, uint32_t transpose, uint32_t ct, uint32_t rt, uint32_t kt) {
    std::string key = "matmul_block_init(";
    for (uint32_t n : {a, b, transpose, ct, rt, kt}) key += std::to_string(n) + ",";
    return key + ")";
}
inline void matmul_block_init(
    uint32_t in0_cb_id, uint32_t in1_cb_id, const uint32_t transpose = 0, uint32_t ct_dim = 1, uint32_t rt_dim = 1,
    uint32_t kt_dim = 1) {
    tensix::dst.transpose = transpose != 0;
    tensix::init(false, block_key(in0_cb_id, in1_cb_id, transpose, ct_dim, rt_dim, kt_dim));
}
inline void matmul_block(
    uint32_t in0_cb_id, uint32_t in1_cb_id, uint32_t in0_tile_index, uint32_t in1_tile_index, uint32_t idst,
    const uint32_t transpose, uint32_t ct_dim, uint32_t rt_dim, uint32_t kt_dim) {
    const char* what = "matmul_block";
    tensix::computes(what, false, block_key(in0_cb_id, in1_cb_id, transpose, ct_dim, rt_dim, kt_dim));
    tensix::unpacks(what, in1_cb_id, in0_cb_id);
    tensix::for_the_fpu(what, in0_cb_id);
    tensix::for_the_fpu(what, in1_cb_id);
    for (uint32_t r = 0; r < rt_dim; ++r)
        for (uint32_t c = 0; c < ct_dim; ++c) {
            const tensix::Tile& left = tensix::front(what, in0_cb_id, in0_tile_index + r * kt_dim);
            const tensix::Tile& right = tensix::front(what, in1_cb_id, in1_tile_index + c);
            const tensix::Tile a = tensix::for_source(left, in0_cb_id), b = tensix::for_source(right, in1_cb_id);
            accumulate_matmul(what, idst + r * ct_dim + c, a, b, tensix::dst.transpose);
        }
}
template <bool out_of_order_output = false, bool is_fp32_dest_acc_en = DST_ACCUM_MODE>
inline void pack_tile(uint32_t ifrom_dst, uint32_t icb, uint32_t output_tile_index = 0) {
    tensix::pack("pack_tile", ifrom_dst, icb, out_of_order_output ? int64_t(output_tile_index) : -1);
}
template <bool is_fp32_dest_acc_en = DST_ACCUM_MODE>
inline void pack_block(uint32_t ifrom_dst, uint32_t icb, uint32_t ntiles) {
    for (uint32_t k = 0; k < ntiles; ++k) tensix::pack("pack_block", ifrom_dst + k, icb, -1);
}
template <SrcOrder src_order = SrcOrder::Regular>
inline void reconfig_data_format(const uint32_t icb0_new_operand, const uint32_t icb1_new_operand) {
    tensix::reconfigure("reconfig_data_format", icb0_new_operand, icb1_new_operand);
}
template <bool is_tile_dim_reconfig_en = false>
inline void pack_reconfig_data_format(const uint32_t new_cb_id) {
    tensix::reconfigure_packer("pack_reconfig_data_format", new_cb_id);
}
template <uint32_t CTA, uint32_t CRTA = 0>
struct TensorAccessorArgs {
    static constexpr uint32_t next_compile_time_args_offset() { return CTA + 1; }
};
struct TensorAccessor {
    uint32_t tensor;
    template <class Args>
    TensorAccessor(const Args&, uint32_t address, uint32_t) : tensor(address) {}
};
template <class T>
inline T get_common_arg_val(int index) {
    if (size_t(index) >= tensix::common_args.size()) tensix::fail("common argument %d is not there", index);
    return T(tensix::common_args[index]);
}
template <class T>
inline T get_arg_val(int index) {
    if (size_t(index) >= tensix::unique_args.size()) tensix::fail("argument %d is not there", index);
    return T(tensix::unique_args[index]);
}
inline void pack_reconfig_l1_acc(const std::uint32_t l1_acc_en) { tensix::dst.adds = l1_acc_en != 0; }
inline uint8_t get_absolute_logical_x() { return tensix::core.x; }
inline uint8_t get_absolute_logical_y() { return tensix::core.y; }
inline int32_t get_tile_size(int32_t operand) { return int32_t(tensix::buffer("get_tile_size", operand).tile_bytes); }
inline uint32_t get_write_ptr(uint32_t cb) { return tensix::write_pointer(cb); }
inline uint32_t get_read_ptr(uint32_t cb) { return tensix::read_pointer(cb); }
inline void noc_async_read_page(uint32_t id, const TensorAccessor& addrgen, uint32_t dst_local_l1_addr) {
    tensix::start_read(addrgen.tensor, id, dst_local_l1_addr);
}
inline void noc_async_write_page(uint32_t id, const TensorAccessor& addrgen, uint32_t src_local_l1_addr) {
    tensix::start_write(addrgen.tensor, id, src_local_l1_addr);
}
inline void noc_async_read_barrier() { tensix::finish_reads(); }
inline void noc_async_write_barrier() { tensix::finish_writes(); tensix::finish_parcels(); }
