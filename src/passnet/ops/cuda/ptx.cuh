// Every instruction that CUDA C++ has no word for, each in a function of its own. Tests execute the
// kernels on a CPU with these functions replaced; no other source may hold an asm statement.

__device__ __forceinline__ float reciprocal_fast(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// 2^x, to two units in the last place.
__device__ __forceinline__ float power_fast(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// The sixteen bits of the two short formats.
__device__ __forceinline__ unsigned short to_bfloat16(float v) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}
__device__ __forceinline__ unsigned short to_float16(float v) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}
__device__ __forceinline__ float from_float16(unsigned short bits) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(bits));
  return r;
}

// Two numbers in float16, the first in the lower half of the word.
__device__ __forceinline__ unsigned pack_halves(float lower, float upper) {
  unsigned bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(upper), "f"(lower));
  return bits;
}

// The same in bfloat16.
__device__ __forceinline__ unsigned pack_bfloat16(float lower, float upper) {
  unsigned bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(upper), "f"(lower));
  return bits;
}

// Loads that stay where they are written, far ahead of their use.
__device__ __forceinline__ float load_here(const float* p) {
  float v;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(p));
  return v;
}
__device__ __forceinline__ void prefetch_l2(const void* p) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}
// Copies 4, 8 or 16 bytes to shared memory, or zeros from outside, at some time before the group that
// it is in has been waited for; only the thread that copied may then rely on it. Sixteen skip L1.
template <int BYTES>
__device__ __forceinline__ void copy_async(void* to, const void* from, bool inside) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(to), size = inside ? BYTES : 0;
  if constexpr (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 ::"r"(at), "l"(from), "r"(size) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 ::"r"(at), "l"(from), "n"(BYTES), "r"(size) : "memory");
}
// Ends a group of copies, which may be empty.
__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for all groups of this thread but the last few.
template <int LAST>
__device__ __forceinline__ void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LAST) : "memory");
}
// The number of this thread, of which the compiler does not know that it was the same before: what
// follows from it is computed again and does not hold registers all the time.
__device__ __forceinline__ int thread_again() {
  int t = threadIdx.x;
  asm volatile("" : "+r"(t));
  return t;
}

// Sixteen bytes that other blocks see at once or not at all.
__device__ __forceinline__ void store_packet(float* p, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile(
      "{ .reg .b64 lo, hi; .reg .b128 v; mov.b64 lo, {%1, %2}; mov.b64 hi, {%3, %4};"
      " mov.b128 v, {lo, hi}; st.relaxed.gpu.global.b128 [%0], v; }"
      ::"l"(p), "r"(a), "r"(b), "r"(c), "r"(d)
      : "memory");
}
__device__ __forceinline__ float4 load_packet(const float* p) {
  unsigned a, b, c, d;
  asm volatile(
      "{ .reg .b64 lo, hi; .reg .b128 v; ld.relaxed.gpu.global.b128 v, [%4]; mov.b128 {lo, hi}, v;"
      " mov.b64 {%0, %1}, lo; mov.b64 {%2, %3}, hi; }"
      : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(p) : "memory");
  return make_float4(__uint_as_float(a), __uint_as_float(b), __uint_as_float(c), __uint_as_float(d));
}

// c[16, 8] += a[16, 16] b[16, 8] in float16, the three spread over the lanes of a warp.
__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9},"
      " {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// The same in bfloat16.
__device__ __forceinline__ void mma_bfloat16(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9},"
      " {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// Four squares of eight by eight elements of sixteen bits from shared memory, each turned: a lane gets rows
// 2 (lane % 4) and the next of column lane / 4. Lanes 8 i to 8 i + 7 say where the rows of square i are.
__device__ __forceinline__ void load_turned(unsigned (&words)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
// c[16, 8] += a[16, 8] b[8, 8] in tf32.
__device__ __forceinline__ void mma_tf32(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9},"
      " {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
