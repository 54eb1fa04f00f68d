// What a kernel sees of the grid it runs in. No includes: kernels are compiled with macros such as N.
#pragma once

struct Index {
  unsigned x, y, z;
};
// Those of the thread that runs now.
extern Index threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {

struct Slot {
  unsigned words[6];
};
void wait_for_block(int line);
// Every lane of a warp brings a slot and sees the slots of all 32.
const Slot* trade(const Slot& mine, int line);
// Lets other threads go on before this one looks again at what it waits for.
void let_others_go_on();
void note_progress();
// Copies that arrive when the group they are in is waited for; until then their place holds NaN.
void copy_later(void* to, const void* from, unsigned bytes, bool inside);
void end_copies();
void wait_for_copies(unsigned last);
// Ends the launch with a sentence.
[[noreturn]] void fail(const char* format, ...);

struct Parameter {
  unsigned width;  // bytes of what it points to; 0 for a number
  bool constant;
};
struct Argument {
  unsigned long long value, bytes;
  unsigned width;
};
struct Launch {
  unsigned grid[3], threads, shared, together;
  unsigned long long order;  // 0 threads in their order, 1 backwards, else the seed of a shuffle
};
struct Body {
  void (*enter)(void* kernel, const unsigned long long* values);
  void* kernel;
  const Parameter* parameters;
  int count;
  float* shared;
  unsigned capacity;  // bytes of it
};
// Runs a kernel to its end; a sentence if that is impossible.
const char* run_grid(const Body& body, const Launch& how, const Argument* given, int count);

}  // namespace emulation
