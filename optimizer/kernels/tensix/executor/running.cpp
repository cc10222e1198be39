#include "running.hpp"

namespace tensix {

namespace {

struct Kernel {
    const char* kind;
    void (*entry)();
    std::vector<uint32_t> common;
};

// Of which every core gets one.
struct Made {
    int capacity = 0;
    bool sixteen_bits = true;
    std::vector<CircularBuffer> buffers = std::vector<CircularBuffer>(kBuffers);
    Semaphore semaphores[kSemaphores];
};

struct Backed {
    uint32_t buffer;
    size_t tensor;
};

Made pattern;
std::vector<size_t> sharded;
std::vector<Backed> backed;
std::vector<Kernel> kernels;

struct Given {
    Core* on;
    const Kernel* kernel;
    int number;
    std::vector<uint32_t> unique;
    std::string* error;
};

void run_thread(Given given) {
    this_core = given.on;
    this_thread = given.number;
    thread_name = given.kernel->kind;
    noc = !strcmp(given.kernel->kind, "writer");
    common_args = given.kernel->common;
    unique_args = std::move(given.unique);
    try {
        given.kernel->entry();
        if (!reads.empty()) fail("ends before its reads have arrived");
        if (!writes.empty() || !parcels.empty() || semaphore_writes) fail("ends before its writes have arrived");
        if (semaphore_adds) fail("ends before what it added to semaphores has arrived");
    } catch (const Failure& failure) {
        std::unique_lock held(machine.lock);
        *given.error = failure.message;
        if (cores.size() > 1) *given.error = "core (" + std::to_string(given.on->x) + ", " + std::to_string(given.on->y) + ") " + failure.message;
        machine.dead = true;
    }
    std::unique_lock held(machine.lock);
    --machine.alive;
    if (machine.alive > 0 && machine.blocked == machine.alive) machine.dead = true;
    machine.signal.notify_all();
}

std::string left_over(Core& core) {
    const Dst& dst = *core.dst;
    if (dst.phase != Phase::Released) return "compute: ends within a section";
    if (dst.adds) return "compute: ends while the packer adds to L1";
    for (int k = 0; k < kBuffers; ++k) {
        auto& b = core.buffers[k];
        const std::string name = "circular buffer " + std::to_string(k);
        if (b.bound && b.pushed != b.popped) return name + " is not drained: " + std::to_string(b.pushed - b.popped) + " tiles left";
        if (b.bound && b.reserved) return name + " is reserved and not pushed";
    }
    return "";
}

Core& made(uint8_t x, uint8_t y) {
    cores.push_back(std::make_unique<Core>());
    Core& made = *cores.back();
    made.x = x;
    made.y = y;
    made.dst = new Dst;
    made.dst->capacity = pattern.capacity;
    made.dst->sixteen_bits = pattern.sixteen_bits;
    made.dst->tiles.resize(pattern.capacity);
    made.dst->defined.assign(pattern.capacity, 0);
    std::copy(pattern.buffers.begin(), pattern.buffers.end(), made.buffers);
    std::copy(pattern.semaphores, pattern.semaphores + kSemaphores, made.semaphores);
    return made;
}

bool read_tensors() {
    FILE* in = fopen("tensors.in", "rb");
    for (auto& t : tensors)
        if (fread(t.tiles.data(), sizeof(Tile), t.tiles.size(), in) != t.tiles.size()) return false;
    fclose(in);
    return true;
}

void write_tensors() {
    FILE* out = fopen("tensors.out", "wb");
    for (auto& t : tensors) fwrite(t.tiles.data(), sizeof(Tile), t.tiles.size(), out);
    fclose(out);
}

// What went wrong first, if anything did.
std::string run_threads(const std::vector<Given>& given, const std::vector<std::string>& errors) {
    std::vector<std::thread> threads;
    for (auto& g : given) threads.emplace_back(run_thread, g);
    for (auto& t : threads) t.join();
    std::string first;
    for (auto& e : errors)
        if (!e.empty() && (first.empty() || first.ends_with("stopped"))) first = e;
    for (auto& c : cores)
        if (first.empty()) first = left_over(*c);
    return first;
}

}  // namespace

void has_dst(int capacity, bool sixteen_bits) {
    pattern.capacity = capacity;
    pattern.sixteen_bits = sixteen_bits;
}

void has_units(bool wide, int phases_of_fpu, bool slips, bool sums_without_sign) {
    on_device = true;
    wide_dst = wide;
    phases = phases_of_fpu;
    least_slips = slips;
    signless_sums = sums_without_sign;
}

void has_buffer(uint32_t index, uint32_t tiles, Format format, uint32_t tile_bytes, bool straight) {
    auto& b = pattern.buffers[index];
    b.bound = true;
    b.straight = straight;
    b.capacity = tiles;
    b.format = format;
    b.tile_bytes = tile_bytes;
    b.tiles.resize(tiles);
    b.poisoned.assign(tiles, 1);
    b.filled.assign(tiles, 0);
    b.arrived.resize(tiles);
}

void has_semaphore(uint32_t index, uint32_t value) {
    pattern.semaphores[index].there = true;
    pattern.semaphores[index].value = value;
}

void has_tensor(size_t tiles, bool is_sharded) {
    if (is_sharded) sharded.push_back(tensors.size());
    tensors.emplace_back();
    tensors.back().tiles.resize(tiles);
}

void lies_in(uint32_t buffer, size_t tensor) { backed.push_back({buffer, tensor}); }

void has_kernel(const char* kind, void (*kernel)(), std::initializer_list<uint32_t> common) {
    kernels.push_back({kind, kernel, common});
}

int run_program(int own, int count, char** words) {
    const int of_core = 2 + own, core_count = (count - 1) / of_core;
    for (size_t t : sharded) tensors[t].tiles.resize(tensors[t].tiles.size() * core_count);
    if (!read_tensors()) return 2;
    machine.alive = int(kernels.size()) * core_count;
    std::vector<std::string> errors(machine.alive);
    std::vector<Given> given;
    for (int n = 0; n < core_count; ++n) {
        char** word = words + 1 + n * of_core;
        Core& core = made(std::atoi(word[0]), std::atoi(word[1]));
        std::vector<uint32_t> unique;
        for (int k = 0; k < own; ++k) unique.push_back(uint32_t(std::strtoul(word[2 + k], nullptr, 10)));
        for (const Backed& b : backed) back_by_tensor(core, b.buffer, b.tensor, n);
        for (const Kernel& k : kernels) {
            const int number = int(given.size());
            given.push_back({&core, &k, number, unique, &errors[number]});
        }
    }
    const std::string wrong = run_threads(given, errors);
    if (!wrong.empty()) {
        fprintf(stderr, "%s\n", wrong.c_str());
        return 1;
    }
    for (int n = 0; n < core_count; ++n)
        for (const Backed& b : backed) keep_in_tensor(*cores[n], b.buffer, b.tensor, n);
    write_tensors();
    int sections = 0, inits = 0, most = 0;
    for (auto& c : cores) {
        sections += c->dst->sections;
        inits += c->dst->inits;
        most = std::max(most, c->dst->most);
    }
    printf("%d %d %d\n", sections, inits, most);
    return 0;
}

}  // namespace tensix
