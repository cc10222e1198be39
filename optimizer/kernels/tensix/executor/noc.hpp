// What kernels do on other cores: blocks written to circular buffers there, semaphores, and the calls of the dataflow API
// for both. Threads are started here.
#pragma once
#include "dst.hpp"
#include "tensors.hpp"

namespace tensix {

// -- other cores -----------------------------------------------------------------------------------------
constexpr uint32_t kSemaphoreBase = uint32_t(kBuffers) * kSpan;
constexpr uint32_t kVirtual = 18;  // cores have other coordinates on the NoC than in their grid
extern thread_local uint8_t noc;

// Tables of the firmware: where the columns and rows of the grid are on the NoC.
struct OnNoc {
    uint32_t operator[](uint32_t place) const { return place + kVirtual; }
};

struct NocAddress {
    uint32_t x0, y0, x1, y1, address;
    bool many;
};

// An address as 64 bits: 7 for each coordinate.
uint64_t packed(uint32_t x0, uint32_t y0, uint32_t x1, uint32_t y1, uint32_t address, bool many);
NocAddress unpacked(uint64_t a);

Core* core_on_noc(const char* what, uint32_t x, uint32_t y);

// The cores that an address names; a rectangle is gone through in the direction of the NoC.
std::vector<Core*> named(const char* what, const NocAddress& a, bool many, uint32_t count, bool self);

Semaphore& semaphore(const char* what, Core* c, uint32_t address);

uint32_t address_of(volatile uint32_t* word);

// A block leaves: all receivers must have told that they have room for it.
void send(const char* what, uint32_t source, uint64_t target, uint32_t bytes, bool many, uint32_t count, bool self);

void deliver(Parcel& p);

void finish_parcels();

void set_semaphore(Semaphore& s, uint32_t value);

void add_semaphore(uint64_t target, uint32_t value);

void send_semaphore(const char* what, uint32_t source, uint64_t target, bool many, uint32_t count, bool self);

void wait_semaphore(const char* what, uint32_t address, uint32_t value, bool at_least);

}  // namespace tensix

#define tt_l1_ptr
inline thread_local uint8_t& noc_index = tensix::noc;
inline constexpr tensix::OnNoc worker_logical_col_to_virtual_col, worker_logical_row_to_virtual_row;
uint64_t get_noc_addr(uint32_t noc_x, uint32_t noc_y, uint32_t addr);
uint64_t get_noc_multicast_addr(uint32_t x_start, uint32_t y_start, uint32_t x_end, uint32_t y_end, uint32_t addr);
void noc_async_write(uint32_t src_local_l1_addr, uint64_t dst_noc_addr, uint32_t size);
void noc_async_write_multicast(uint32_t src_local_l1_addr, uint64_t dst_noc_addr, uint32_t size, uint32_t num_dests);
void noc_async_write_multicast_loopback_src(
    uint32_t src_local_l1_addr, uint64_t dst_noc_addr, uint32_t size, uint32_t num_dests);
uintptr_t get_semaphore(uint32_t semaphore_id);
void noc_semaphore_wait(volatile tt_l1_ptr uint32_t* sem_addr, uint32_t val);
void noc_semaphore_wait_min(volatile tt_l1_ptr uint32_t* sem_addr, uint32_t val);
void noc_semaphore_set(volatile tt_l1_ptr uint32_t* sem_addr, uint32_t val);
void noc_semaphore_inc(uint64_t addr, uint32_t incr);
void noc_semaphore_set_remote(uint32_t src_local_l1_addr, uint64_t dst_noc_addr);
void noc_semaphore_set_multicast(uint32_t src_local_l1_addr, uint64_t dst_noc_addr, uint32_t num_dests);
void noc_semaphore_set_multicast_loopback_src(uint32_t src_local_l1_addr, uint64_t dst_noc_addr, uint32_t num_dests);
void noc_async_atomic_barrier();
