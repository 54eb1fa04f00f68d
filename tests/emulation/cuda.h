// CUDA C++ for g++, in the place of ptx.cuh: its words, its built-in functions, and on a CPU what
// ptx.cuh does in instructions of the GPU. The kernels that follow are compiled as they are.
#pragma once
#include "grid.h"

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ thread_local  // the one word that may stand before a local array and after extern
#define fmaf __builtin_fmaf
#define fabsf __builtin_fabsf
#define sqrtf __builtin_sqrtf
#define fmaxf __builtin_fmaxf
#define copysignf __builtin_copysignf

thread_local float smem[64 * 1024] __align__(128);

struct __align__(16) float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct __align__(16) uint4 {
  unsigned x, y, z, w;
};
struct __align__(8) uint2 {
  unsigned x, y;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline unsigned __float_as_uint(float v) {
  unsigned bits;
  __builtin_memcpy(&bits, &v, 4);
  return bits;
}
inline float __uint_as_float(unsigned bits) {
  float v;
  __builtin_memcpy(&v, &bits, 4);
  return v;
}

namespace emulation {
// Other threads run inside these calls: whatever was read from memory before has to be read again.
inline void memory_changed() { asm volatile("" ::: "memory"); }
inline void synchronize(int line) {
  memory_changed();
  wait_for_block(line);
  memory_changed();
}
template <class Word>
inline Word shuffle(unsigned lanes, Word v, unsigned from, int line) {
  if (lanes != 0xffffffffu) fail("line %d shuffles among the lanes %x only", line, lanes);
  if (from >= 32) fail("line %d asks lane %u", line, from);
  static_assert(sizeof(Word) == 4, "lanes trade words of four bytes");
  unsigned bits;
  __builtin_memcpy(&bits, &v, 4);
  memory_changed();
  __builtin_memcpy(&v, &trade({{bits}}, line)[from].words[0], 4);
  memory_changed();
  return v;
}
inline unsigned ballot(unsigned lanes, bool said, int line) {
  if (lanes != 0xffffffffu) fail("line %d asks the lanes %x only", line, lanes);
  memory_changed();
  const Slot* all = trade({{said}}, line);
  unsigned found = 0;
  for (int i = 0; i < 32; i++) found |= (unsigned)(all[i].words[0] != 0) << i;
  memory_changed();
  return found;
}
inline unsigned reduce_max(unsigned lanes, unsigned v, int line) {
  if (lanes != 0xffffffffu) fail("line %d reduces the lanes %x only", line, lanes);
  memory_changed();
  const Slot* all = trade({{v}}, line);
  for (int i = 0; i < 32; i++)
    if (all[i].words[0] > v) v = all[i].words[0];
  memory_changed();
  return v;
}
inline float flush(float v) { return fabsf(v) < 0x1p-126f ? 0.0f : v; }
// The sum as a tensor core leaves it: exact products, rounded towards zero.
inline float toward_zero(double sum) {
  const float near = (float)sum;
  const bool beyond = near > 0 ? near > sum : near < sum;
  return beyond ? __uint_as_float(__float_as_uint(near) - 1) : near;
}
inline double bfloat16(unsigned bits) { return __uint_as_float(bits << 16); }
inline double tf32(unsigned bits) { return __uint_as_float(bits & 0xffffe000u); }
}  // namespace emulation
#define __syncthreads() emulation::synchronize(__LINE__)
#define __shfl_sync(lanes, v, from) emulation::shuffle(lanes, v, from, __LINE__)
#define __shfl_xor_sync(lanes, v, mask) emulation::shuffle(lanes, v, threadIdx.x % 32 ^ (mask), __LINE__)
#define __reduce_max_sync(lanes, v) emulation::reduce_max(lanes, v, __LINE__)
#define __any_sync(lanes, said) (emulation::ballot(lanes, said, __LINE__) != 0)
#define __ballot_sync(lanes, said) emulation::ballot(lanes, said, __LINE__)
inline int __ffs(unsigned v) { return v ? __builtin_ctz(v) + 1 : 0; }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline unsigned atomicMax(unsigned* p, unsigned v) {
  const unsigned before = *p;
  if (v > before) *p = v;
  return before;
}

// From here on, ptx.cuh.

inline float reciprocal_fast(float x) { return emulation::flush(1.0f / x); }
inline float power_fast(float x) { return emulation::flush(__builtin_exp2f(x)); }

inline unsigned short to_bfloat16(float v) {
  const unsigned bits = __float_as_uint(v);
  return v != v ? 0x7fff : (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}
inline unsigned short to_float16(float v) {
  const unsigned sign = __float_as_uint(v) >> 16 & 0x8000u, bits = __float_as_uint(fabsf(v));
  if (v != v) return 0x7fff;
  if (fabsf(v) >= 65520.0f) return sign | 0x7c00u;
  // Next to one half, float32 has the spacing of the smallest float16 numbers.
  if (fabsf(v) < 0x1p-14f) return sign | (__float_as_uint(fabsf(v) + 0.5f) - 0x3f000000u);
  return sign | ((bits + 0xfffu + (bits >> 13 & 1) - 0x38000000u) >> 13);
}
inline float from_float16(unsigned short bits) {
  const unsigned sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
  if (rest < 0x400u) return __uint_as_float(sign | __float_as_uint(rest * 0x1p-24f));
  return __uint_as_float(sign | ((rest << 13) + (rest < 0x7c00u ? 0x38000000u : 0x70000000u)));
}

inline unsigned pack_halves(float lower, float upper) {
  return to_float16(lower) | (unsigned)to_float16(upper) << 16;
}
inline unsigned pack_bfloat16(float lower, float upper) {
  return to_bfloat16(lower) | (unsigned)to_bfloat16(upper) << 16;
}

inline float load_here(const float* p) { return *p; }
inline void prefetch_l2(const void* p) { (void)*static_cast<const volatile char*>(p); }
inline int thread_again() { return threadIdx.x; }

template <int BYTES>
inline void copy_async(void* to, const void* from, bool inside) {
  emulation::copy_later(to, from, BYTES, inside);
}
inline void end_group() { emulation::end_copies(); }
template <int LAST>
inline void wait_for_groups() {
  emulation::wait_for_copies(LAST);
  emulation::memory_changed();
}

inline float4* packet_at(const float* p) {
  if (reinterpret_cast<unsigned long long>(p) % 16) emulation::fail("a packet is not aligned");
  return reinterpret_cast<float4*>(const_cast<float*>(p));
}
inline void store_packet(float* p, unsigned a, unsigned b, unsigned c, unsigned d) {
  *packet_at(p) = make_float4(__uint_as_float(a), __uint_as_float(b), __uint_as_float(c),
                              __uint_as_float(d));
  emulation::note_progress();
}
inline float4 load_packet(const float* p) {
  emulation::memory_changed();
  emulation::let_others_go_on();
  emulation::memory_changed();
  return *packet_at(p);
}

namespace emulation {
// c[16, 8] += a[16, DEPTH] b[DEPTH, 8]: `term` is a product of numbers that the lanes hold.
template <int DEPTH, class Term>
inline void tensor_core(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], Term term) {
  memory_changed();
  const Slot* lanes = trade({{a[0], a[1], a[2], a[3], b[0], b[1]}}, -1);
  const int lane = threadIdx.x % 32;
  for (int i = 0; i < 4; i++) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    double sum = c[i];
    for (int k = 0; k < DEPTH; k++) sum += term(lanes, row, column, k);
    c[i] = toward_zero(sum);
  }
  memory_changed();
}
}  // namespace emulation
inline void mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  emulation::tensor_core<16>(c, a, b, [](const emulation::Slot* lanes, int row, int column, int k) {
    const int shift = k % 2 * 16, from = k % 8 / 2;
    return (double)from_float16(lanes[row % 8 * 4 + from].words[row / 8 + k / 8 * 2] >> shift) *
           (double)from_float16(lanes[column * 4 + from].words[4 + k / 8] >> shift);
  });
}
inline void mma_bfloat16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  emulation::tensor_core<16>(c, a, b, [](const emulation::Slot* lanes, int row, int column, int k) {
    const int shift = k % 2 * 16, from = k % 8 / 2;
    return emulation::bfloat16(lanes[row % 8 * 4 + from].words[row / 8 + k / 8 * 2] >> shift) *
           emulation::bfloat16(lanes[column * 4 + from].words[4 + k / 8] >> shift);
  });
}
inline void load_turned(unsigned (&words)[4], const void* row) {
  if (reinterpret_cast<unsigned long long>(row) % 16) emulation::fail("a row of a square is not aligned");
  emulation::memory_changed();
  const unsigned long long own = reinterpret_cast<unsigned long long>(row);
  const emulation::Slot* lanes = emulation::trade({{(unsigned)own, (unsigned)(own >> 32)}}, -1);
  const int lane = threadIdx.x % 32;
  for (int square = 0; square < 4; square++) {
    unsigned short pair[2];
    for (int i = 0; i < 2; i++) {
      const unsigned* at = lanes[square * 8 + lane % 4 * 2 + i].words;
      pair[i] = reinterpret_cast<const unsigned short*>(at[0] | (unsigned long long)at[1] << 32)[lane / 4];
    }
    words[square] = pair[0] | (unsigned)pair[1] << 16;
  }
  emulation::memory_changed();
}
inline void mma_tf32(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  emulation::tensor_core<8>(c, a, b, [](const emulation::Slot* lanes, int row, int column, int k) {
    return emulation::tf32(lanes[row % 8 * 4 + k % 4].words[row / 8 + k / 4 * 2]) *
           emulation::tf32(lanes[column * 4 + k % 4].words[4 + k / 4]);
  });
}

// A function for the outside that launches one kernel.

namespace emulation {
struct Enter {
  template <class... P>
  Enter(void (*kernel)(P...), P... values) {
    kernel(values...);
  }
};
template <class P>
inline P take(const unsigned long long*& next) {
  P value;
  __builtin_memcpy(&value, next++, sizeof(P));
  return value;
}
template <class P>
struct Kind {
  static constexpr Parameter is = {0, true};
};
template <class P>
struct Kind<P*> {
  static constexpr Parameter is = {sizeof(P), false};
};
template <class P>
struct Kind<const P*> {
  static constexpr Parameter is = {sizeof(P), true};
};
template <class... P>
struct Kernel {
  static void enter(void* kernel, const unsigned long long* next) {
    Enter{reinterpret_cast<void (*)(P...)>(kernel), take<P>(next)...};
  }
};
template <class... P>
const char* launch(void (*kernel)(P...), const Launch& how, const Argument* given, int count) {
  const Parameter parameters[] = {Kind<P>::is...};
  return run_grid({Kernel<P...>::enter, reinterpret_cast<void*>(kernel), parameters, sizeof...(P),
                   smem, sizeof(smem)}, how, given, count);
}
}  // namespace emulation
#define EMULATED(kernel)                                                               \
  extern "C" __attribute__((visibility("default"))) const char* launch_##kernel(       \
      const emulation::Launch& how, const emulation::Argument* given, int count) {     \
    return emulation::launch(kernel, how, given, count);                               \
  }
