// Shared by the kernels: element types, activations, lane reductions.
// Header-free: everything below is CUDA C++ that NVRTC knows without an include path.

#if IO_TYPE == 0
typedef float io_t;
__device__ __forceinline__ float to_float(io_t v) { return v; }
__device__ __forceinline__ io_t from_float(float v) { return v; }
#elif IO_TYPE == 1
struct io_t { unsigned short bits; };
__device__ __forceinline__ float to_float(io_t v) {
  return __uint_as_float(((unsigned)v.bits) << 16);
}
__device__ __forceinline__ io_t from_float(float v) {
  return {to_bfloat16(v)};
}
#else
struct io_t { unsigned short bits; };
__device__ __forceinline__ float to_float(io_t v) {
  return from_float16(v.bits);
}
__device__ __forceinline__ io_t from_float(float v) {
  return {to_float16(v)};
}
#endif

// As it lies in memory: a conversion here would wait for it.
__device__ __forceinline__ io_t read(const io_t* p, bool valid) { return valid ? *p : from_float(0.0f); }

// Where gate k of every step is kept. The reset gate of a GRU, its first, lies apart: the others take the room of the
// drive, and weight gradients still read it when the drive's gradient has taken theirs.
template <bool RESETS, class T>
__device__ __forceinline__ T* gate_plane(T* reset, T* saved, int k, long long plane) {
  return !RESETS ? saved + k * plane : k == 0 ? reset : saved + (k - 1) * plane;
}

#if IO_TYPE == 0
// e^x (or e^2x) as a power of two, with the rounding error of the exponent put back: a polynomial for
// its fraction, which the chip's own instruction would round to two units in the last place.
__device__ __forceinline__ float exp_scaled(float x, float high, float low) {
  const float p = x * high;
  const float rest = fmaf(x, high, -p) + x * low;
  const float inside = p > 126.0f ? 126.0f : p < -126.0f ? -126.0f : p;
  const float whole = inside + 12582912.0f;  // 1.5 * 2^23: what is left of it is an integer
  const float f = inside - (whole - 12582912.0f) + (fabsf(p) < 126.0f ? rest : 0.0f), s = f * f;
  const float low_half = fmaf(f, 0.6931472f, 1.0f), middle = fmaf(f, 0.05550327f, 0.2402265f);
  const float high_half = fmaf(s, 0.00015469732f, fmaf(f, 0.0013400433f, 0.009618025f));
  const float power = fmaf(s, fmaf(s, high_half, middle), low_half);
  return power * __uint_as_float((__float_as_uint(whole) << 23) + 0x3f800000u);
}
// The step of Newton's is for gates near one, whose gradient is their distance from it.
__device__ __forceinline__ float sigmoid(float x) {
  const float d = 1.0f + exp_scaled(x, -1.44269502162933f, -1.92596299e-8f);
  const float r = reciprocal_fast(d);
  return fmaf(fmaf(-d, r, 1.0f), r, r);
}
// The exponential form loses relative precision near zero, where a polynomial takes over, and below
// zero, where it would be the difference of two larger numbers.
__device__ __forceinline__ float tanh_of(float x) {
  float s = x * x;
  float p = fmaf(s, -0.00554265f, 0.02049851f);
  p = fmaf(s, p, -0.05369874f);
  p = fmaf(s, p, 0.13330988f);
  p = fmaf(s, p, -0.33333267f);
  float small = fmaf(x * s, p, x);
  float e = exp_scaled(fabsf(x), 2.88539004325866f, 3.85192598e-8f);
  const float d = 1.0f + e, r = reciprocal_fast(d);
  float large = copysignf(fmaf(-2.0f, fmaf(fmaf(-d, r, 1.0f), r, r), 1.0f), x);
  return s < 0.36f ? small : large;
}
#else
// What is rounded to sixteen bits needs no more than the chip's own power and reciprocal.
__device__ __forceinline__ float sigmoid(float x) {
  return reciprocal_fast(1.0f + power_fast(-1.442695f * x));
}
__device__ __forceinline__ float tanh_of(float x) {
  return fmaf(-2.0f, reciprocal_fast(1.0f + power_fast(2.88539f * x)), 1.0f);
}
#endif

// Sums R values over the lanes that differ in the bits of 2*MASK-1, leaving each lane with a share
// of the rows: a butterfly that halves what it carries at every level.
template <int R, int MASK>
struct ScatterSum {
  static constexpr int H = (R + 1) / 2;
  static constexpr int LEFT = ScatterSum<H, MASK / 2>::LEFT;
  static __device__ __forceinline__ void run(float* v, int lane) {
    const bool upper = lane & MASK;
#pragma unroll
    for (int i = 0; i < H; i++) {
      const float low = v[i], high = i + H < R ? v[i + H] : 0.0f;
      const float keep = R == 1 ? low : (upper ? high : low);
      const float send = R == 1 ? low : (upper ? low : high);
      v[i] = keep + __shfl_xor_sync(0xffffffffu, send, MASK);
    }
    ScatterSum<H, MASK / 2>::run(v, lane);
  }
  // Rows first <= r < limit are this lane's to store.
  static __device__ __forceinline__ void rows(int lane, int& first, int& limit) {
    if (R == 1) {
      if (lane & MASK) limit = first;
    } else if (lane & MASK) {
      first += H;
    } else {
      limit = limit < first + H ? limit : first + H;
    }
    ScatterSum<H, MASK / 2>::rows(lane, first, limit);
  }
};
template <int R>
struct ScatterSum<R, 0> {
  static constexpr int LEFT = R;
  static __device__ __forceinline__ void run(float*, int) {}
  static __device__ __forceinline__ void rows(int, int&, int&) {}
};
