// Runs the threads of a grid one after the other on one thread of the CPU. A thread keeps its own
// stack and runs until it has to wait for others; the order of those that could run is a choice, and
// no result may depend on it.
#include "grid.h"
#include "guards.h"

#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <map>
#include <numeric>

#include <ucontext.h>

Index threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {
namespace {

constexpr size_t stack_bytes = 128 * 1024;
constexpr int patience = 3000;  // rounds in which nobody did more than look for a packet

enum State { ready, at_barrier, in_warp, done };
const char* const words[] = {"wait for a packet", "wait at __syncthreads of line",
                             "wait for their warp at line", "have ended"};

struct Copy {
  void* to;
  const void* from;
  unsigned bytes, group;
};
struct Thread {
  jmp_buf here;
  std::vector<Copy> copies;  // under way
  unsigned groups = 0;       // ended
  bool started = false;
  State state = ready;
  int line = 0;
};
struct Warp {
  Slot slots[2][32];
  unsigned arrived = 0, turn = 0;
};
struct Block {
  Index index;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<char> shared;
  unsigned waiting = 0, ended = 0;
};

struct Grid {
  const Body& body;
  const Launch& how;
  Guards arguments;
  std::vector<Block> blocks;
  std::vector<unsigned> block_order, thread_order;
  std::vector<char> asleep;  // warps that go on, one by one, when the others cannot
  Block* block = nullptr;    // whose threads run, and whose shared memory is in place
  unsigned thread = 0;
  unsigned long long progress = 0, random;

  Grid(const Body& body, const Launch& how)
      : body(body), how(how), random(how.order * 2654435761u + 1) {}
  unsigned draw(unsigned limit) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    return (random >> 20) % limit;
  }
  void arrange(std::vector<unsigned>& order) {
    if (how.order < 2) return;
    for (size_t i = order.size(); i > 1; i--) std::swap(order[i - 1], order[draw(i)]);
  }
  void run();
  void run_together(unsigned first, unsigned last);
  void visit(unsigned which, unsigned stack);
  void resume(unsigned which, unsigned stack);
  void pass_barrier();
  void put_to_sleep();
  bool can_run(unsigned first, unsigned last) const;
  [[noreturn]] void report_stuck(unsigned first, unsigned last) const;
};

Grid* grid = nullptr;
char* stacks = nullptr;  // kept from launch to launch
size_t stacks_mapped = 0;
jmp_buf home;       // where threads return to when they wait
sigjmp_buf escape;  // where failures end
char failure[2000];

// Starts or continues a thread of the present block; comes back when it waits or ends.
__attribute__((noinline)) void Grid::resume(unsigned which, unsigned stack) {
  thread = which;
  threadIdx = {which, 0, 0};
  if (_setjmp(home)) return;
  Thread& chosen = block->threads[which];
  if (chosen.started) _longjmp(chosen.here, 1);
  chosen.started = true;
  ucontext_t first;
  getcontext(&first);
  first.uc_stack.ss_sp = stacks + stack * (stack_bytes + page) + page;
  first.uc_stack.ss_size = stack_bytes;
  first.uc_link = nullptr;
  makecontext(&first, [] {
    grid->body.enter(grid->body.kernel, grid->arguments.values.data());
    Thread& own = grid->block->threads[grid->thread];
    if (own.copies.size()) fail("thread %u left before its copies arrived", grid->thread);
    own.state = done;
    grid->block->ended++;
    grid->progress++;
    _longjmp(home, 1);
  }, 0);
  setcontext(&first);
}

__attribute__((noinline)) void leave() {
  if (!_setjmp(grid->block->threads[grid->thread].here)) _longjmp(home, 1);
}

// Lets the threads of one block run until each waits for another block or has ended.
void Grid::visit(unsigned which, unsigned stack) {
  Block& next = blocks[which];
  if (block != &next) {
    if (block) memcpy(block->shared.data(), body.shared, how.shared);
    memcpy(body.shared, next.shared.data(), how.shared);
    block = &next;
  }
  blockIdx = block->index;
  put_to_sleep();
  for (bool again = true; again;) {
    const unsigned long long before = progress;
    arrange(thread_order);
    for (const unsigned one : thread_order)
      if (block->threads[one].state == ready && !asleep[one / 32])
        resume(one, stack * how.threads + one);
    if (block->waiting && block->waiting + block->ended == how.threads) pass_barrier();
    again = progress != before;
    const unsigned sleepers = std::count(asleep.begin(), asleep.end(), 1);
    if (!again && sleepers) {
      unsigned left = draw(sleepers);  // one of them wakes up
      for (char& sleeps : asleep)
        if (sleeps && left-- == 0) sleeps = 0;
      again = true;
    }
  }
}

// Lets all threads of a block go on behind a barrier, some warps at once, others later.
void Grid::pass_barrier() {
  const unsigned which = block - blocks.data();
  for (const Thread& one : block->threads)
    if (one.state != at_barrier || one.line != block->threads[0].line) report_stuck(which, which + 1);
  for (Thread& one : block->threads) one.state = ready;
  put_to_sleep();
  block->waiting = 0;
}

void Grid::put_to_sleep() {
  for (char& sleeps : asleep) sleeps = how.order > 1 && draw(2);
}

bool Grid::can_run(unsigned first, unsigned last) const {
  for (unsigned i = first; i < last; i++)
    for (const Thread& one : blocks[i].threads)
      if (one.state == ready) return true;
  return false;
}

void Grid::report_stuck(unsigned first, unsigned last) const {
  std::string text;
  for (unsigned i = first; i < last && text.size() < 1000; i++) {
    std::map<std::pair<State, int>, int> found;
    for (const Thread& one : blocks[i].threads)
      found[{one.state, one.state == ready || one.state == done ? 0 : one.line}]++;
    text += "; in block " + std::to_string(i);
    for (const auto& [what, many] : found) {
      text += " " + std::to_string(many) + " " + words[what.first];
      if (what.second) text += " " + std::to_string(what.second);
      text += ",";
    }
    text.pop_back();
  }
  fail("threads cannot go on%s", text.c_str());
}

// Blocks that may wait for each other.
void Grid::run_together(unsigned first, unsigned last) {
  const size_t each = stack_bytes + page, wanted = (last - first) * how.threads * each;
  if (stacks_mapped < wanted) {
    if (stacks) munmap(stacks, stacks_mapped);
    stacks_mapped = wanted;
    stacks = static_cast<char*>(mmap(nullptr, stacks_mapped, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (size_t at = 0; at < stacks_mapped; at += each) mprotect(stacks + at, page, PROT_NONE);
  }
  for (unsigned i = first; i < last; i++) {
    Block& one = blocks[i];
    one.index = {i % how.grid[0], i / how.grid[0] % how.grid[1], i / (how.grid[0] * how.grid[1])};
    one.threads.resize(how.threads);
    one.warps.resize(how.threads / 32);
    one.shared.assign(how.shared, static_cast<char>(poison));
  }
  for (int idle = 0;;) {
    const unsigned long long before = progress;
    arrange(block_order);
    bool over = true;
    for (const unsigned i : block_order)
      if (i >= first && i < last && blocks[i].ended < how.threads) {
        over = false;
        visit(i, i - first);
      }
    if (over) break;
    idle = progress == before ? idle + 1 : 0;
    if (idle > patience || (idle && !can_run(first, last))) report_stuck(first, last);
  }
  block = nullptr;
  for (unsigned i = first; i < last; i++) blocks[i] = {};
}

void Grid::run() {
  if (how.threads % 32 || how.shared + page > body.capacity)
    fail("%u threads with %u bytes of shared memory cannot be emulated", how.threads, how.shared);
  unsigned char* const shared = reinterpret_cast<unsigned char*>(body.shared);
  memset(shared, poison, how.shared + page);
  blockDim = {how.threads, 1, 1};
  gridDim = {how.grid[0], how.grid[1], how.grid[2]};
  blocks.resize(how.grid[0] * how.grid[1] * how.grid[2]);
  block_order.resize(blocks.size());
  thread_order.resize(how.threads);
  asleep.resize(how.threads / 32);
  for (auto* order : {&block_order, &thread_order}) {
    std::iota(order->begin(), order->end(), 0u);
    if (how.order == 1) std::reverse(order->begin(), order->end());
    arrange(*order);
  }
  if (how.together) run_together(0, blocks.size());
  else
    for (const unsigned i : std::vector<unsigned>(block_order)) run_together(i, i + 1);
  for (size_t at = how.shared; at < how.shared + page; at++)
    if (shared[at] != poison)
      fail("byte %zu of shared memory was written, it has %u", at, how.shared);
}

void on_fault(int signal, siginfo_t* info, void*) {
  if (signal == SIGILL)  // kernels are compiled to trap there
    fail("thread %u of block (%u, %u, %u) uses an address that is not aligned", threadIdx.x,
         blockIdx.x, blockIdx.y, blockIdx.z);
  fail("thread %u of block (%u, %u, %u) got signal %d: it %s", threadIdx.x, blockIdx.x, blockIdx.y,
       blockIdx.z, signal, grid->arguments.blame(static_cast<const char*>(info->si_addr)).c_str());
}

}  // namespace

void fail(const char* format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(failure, sizeof(failure), format, list);
  va_end(list);
  siglongjmp(escape, 1);
}

void wait_for_block(int line) {
  Thread& own = grid->block->threads[grid->thread];
  own.state = at_barrier;
  own.line = line;
  grid->block->waiting++;
  grid->progress++;
  leave();
}

const Slot* trade(const Slot& mine, int line) {
  const unsigned warp = grid->thread / 32, which = grid->block - grid->blocks.data();
  Warp& all = grid->block->warps[warp];
  Thread* lanes = &grid->block->threads[warp * 32];
  Thread& own = lanes[grid->thread % 32];
  const Slot* slots = all.slots[all.turn];
  all.slots[all.turn][grid->thread % 32] = mine;
  own.state = in_warp;
  own.line = line;
  grid->progress++;
  if (++all.arrived < 32) {
    leave();
    return slots;
  }
  for (int i = 0; i < 32; i++)
    if (lanes[i].line != line) grid->report_stuck(which, which + 1);
  // The other half is free: whoever fills it has read this one.
  all.turn ^= 1;
  all.arrived = 0;
  for (int i = 0; i < 32; i++) lanes[i].state = ready;
  return slots;
}

void copy_later(void* to, const void* from, unsigned bytes, bool inside) {
  Thread& own = grid->block->threads[grid->thread];
  if (reinterpret_cast<size_t>(to) % bytes || (inside && reinterpret_cast<size_t>(from) % bytes))
    fail("a copy of %u bytes is not aligned", bytes);
  memset(to, poison, bytes);
  own.copies.push_back({to, inside ? from : nullptr, bytes, own.groups});
}
void end_copies() { grid->block->threads[grid->thread].groups++; }
void wait_for_copies(unsigned last) {
  Thread& own = grid->block->threads[grid->thread];
  std::vector<Copy> left;
  for (const Copy& one : own.copies) {
    if (one.group + last >= own.groups) left.push_back(one);
    else if (one.from) memcpy(one.to, one.from, one.bytes);
    else memset(one.to, 0, one.bytes);
  }
  own.copies.swap(left);
}

void let_others_go_on() { leave(); }
void note_progress() { grid->progress++; }

const char* run_grid(const Body& body, const Launch& how, const Argument* given, int count) {
  static char room[64 * 1024];  // for the handler, since a thread may have run out of its own
  Grid own(body, how);
  grid = &own;
  failure[0] = 0;
  stack_t old_stack, stack = {};
  stack.ss_sp = room;
  stack.ss_size = sizeof(room);
  sigaltstack(&stack, &old_stack);
  struct sigaction action = {}, old[4];
  const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int i = 0; i < 4; i++) sigaction(signals[i], &action, &old[i]);
  if (!sigsetjmp(escape, 1)) {
    own.arguments.place(body, given, count);
    own.run();
    own.arguments.copy_back();
  }
  for (int i = 0; i < 4; i++) sigaction(signals[i], &old[i], nullptr);
  sigaltstack(&old_stack, nullptr);
  grid = nullptr;
  return failure[0] ? failure : nullptr;
}

}  // namespace emulation
