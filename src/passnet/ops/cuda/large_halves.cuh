// Products of float32 accuracy on tensor cores, and their operands. A number is the sum of two halves in
// float16, eleven bits each, and the product of two second halves is nothing. Powers of two bring numbers
// into the range of float16 first. Numbers below 2^-2 begin to lose bits of their own there; those of
// float32 beside the largest, at 2^3 or more, are safe. Tensors of sixteen bits need first halves only, and those
// of bfloat16, which has the exponents of float32, are multiplied as such: nothing is scaled.
//
// Compile-time constants beside those of the small scan: NT threads, BB sequences, NBG blocks, ACROSS in a row,
// UNITS units for each, KRP* tiles of a warp's projection that stay in its registers, KSE* warps that
// share one product, NCH* pieces in which z is staged.

constexpr bool LOW = IO_TYPE == 0;     // there are second halves
constexpr bool SCALED = IO_TYPE != 1;  // to the range of float16
constexpr int WARPS = NT / 32;
constexpr int PW = LOW ? 4 : 2;            // words of four numbers of one sequence
constexpr int XP = BB + (LOW ? 2 : 4);     // fours from one row of them to the next: no bank conflicts
constexpr int STEP = 4 * XP * PW;          // words of sixteen numbers for all sequences
constexpr int FRAGMENT = LOW ? 256 : 128;  // words of a factor's tile of sixteen by sixteen

constexpr int TOP = 10, TOP_OF_FACTORS = 13;  // powers of two to which the largest numbers go

// Scales are powers of two, given by their biased exponents. This one takes the largest magnitude,
// given as its bits, to 2^top or more; the smallest ones, as far as there are powers of two. Zeros are 0
// or 1: the last bit of a packet says its turn.
__device__ __forceinline__ unsigned scale_for(unsigned largest, int top) {
  const int wanted = 254 + top - (int)(largest > 1 ? largest >> 23 : 127);
  return wanted > 253 ? 253 : wanted;
}
__device__ __forceinline__ float power(unsigned exponent) { return __uint_as_float(exponent << 23); }
__device__ __forceinline__ float inverse(unsigned exponent) { return power(254 - exponent); }

// A first half.
__device__ __forceinline__ unsigned short half_of(float v) { return SCALED ? to_float16(v) : to_bfloat16(v); }
// Two numbers as their halves.
__device__ __forceinline__ void split_pair(float a, float b, unsigned& high, unsigned& low) {
  high = SCALED ? pack_halves(a, b) : pack_bfloat16(a, b);
  if (LOW) low = pack_halves(a - from_float16(high & 0xffff), b - from_float16(high >> 16));
}
// part[16, 8] = a[16, 16] b[16, 8]. Such sums are to be added up outside of the tensor core, where they
// round to nearest.
__device__ __forceinline__ void multiply_halves(float (&part)[4], const unsigned (&a_high)[4],
                                                const unsigned (&a_low)[4],
                                                const unsigned (&b_high)[2],
                                                const unsigned (&b_low)[2]) {
  part[0] = part[1] = part[2] = part[3] = 0.0f;
  mma(part, a_low, b_high);
  mma(part, a_high, b_low);
  mma(part, a_high, b_high);
}

// Whether the largest magnitude goes to 2^3 to 2^15. Zeros fit any scale.
__device__ __forceinline__ bool fits(unsigned largest, unsigned exponent) {
  const unsigned above = (largest >> 23) + exponent - 254 - 3;
  return largest < 2 || above < 12;
}

// The scales of an operand that changes from step to step, one for each sequence: that of the step
// before serves unless the numbers have grown or shrunk too far.
struct Range {
  static constexpr int WORDS = 3 * BB;
  unsigned* largest;  // of the step before, of this one, and zeros for the next: they take turns
  int now, basis;
  unsigned before;  // what the scale of sequence threadIdx.x % BB is made from, unless it is rewritten
  __device__ __forceinline__ unsigned scale(int b) const {
    return SCALED ? scale_for(largest[basis * BB + b], TOP) : 127;
  }
  __device__ __forceinline__ int next() const { return now == 2 ? 0 : now + 1; }
  __device__ __forceinline__ void begin() {
    basis = now;
    now = next();
  }
  // Every lane has numbers of sequence b, which is its own modulo MANY.
  template <int MANY>
  __device__ __forceinline__ void note_lanes(int b, float most) const {
    if (!SCALED) return;
#pragma unroll
    for (int mask = MANY; mask < 32; mask *= 2)
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, mask));
    if (threadIdx.x % 32 < MANY) atomicMax(largest + now * BB + b, __float_as_uint(most));
  }
  // All lanes have numbers of one sequence.
  __device__ __forceinline__ void note_warp(int b, float most) const {
    if (!SCALED) return;
    const unsigned here = __reduce_max_sync(0xffffffffu, __float_as_uint(most));
    if (threadIdx.x % 32 == 0) atomicMax(largest + now * BB + b, here);
  }
  // After a barrier: whether the operand must be written once more, with scales of its own.
  __device__ __forceinline__ bool left() {
    if (!SCALED) return false;
    const unsigned latest = largest[now * BB + threadIdx.x % BB];
    if (threadIdx.x < BB) largest[next() * BB + threadIdx.x] = 0;
    const bool fresh = basis == now;  // these are its own: nothing suits it better
    const bool out = !fresh && __any_sync(0xffffffffu, !fits(latest, scale_for(before, TOP)));
    before = latest;
    if (out) basis = now;
    return out;
  }
};

// Four numbers of one sequence, side by side in shared memory.
__device__ __forceinline__ void store_four(unsigned* at, const float4& v, float scale) {
  unsigned high[2], low[2];
  split_pair(v.x * scale, v.y * scale, high[0], low[0]);
  split_pair(v.z * scale, v.w * scale, high[1], low[1]);
  if (LOW)
    *reinterpret_cast<uint4*>(at) = make_uint4(high[0], high[1], low[0], low[1]);
  else
    *reinterpret_cast<uint2*>(at) = make_uint2(high[0], high[1]);
}
// Number k of sequence b.
__device__ __forceinline__ void store_halves(unsigned* x, int k, int b, const float (&v)[1]) {
  unsigned short* at = reinterpret_cast<unsigned short*>(x + (k / 4 * XP + b) * PW) + k % 4;
  at[0] = half_of(v[0]);
  if (LOW) at[4] = to_float16(v[0] - from_float16(at[0]));
}
// Numbers k and k + 1, k even.
__device__ __forceinline__ void store_halves(unsigned* x, int k, int b, const float (&v)[2]) {
  unsigned* at = x + (k / 4 * XP + b) * PW + k % 4 / 2;
  split_pair(v[0], v[1], at[0], at[2]);
}

// A lane's part of a factor's tile. Word j of it holds two neighbours in depth.
struct Fragment {
  unsigned high[4], low[4];
  static __device__ __forceinline__ int row(int lane, int j) { return lane / 4 + j % 2 * 8; }
  static __device__ __forceinline__ int depth(int lane, int j) { return lane % 4 * 4 + j / 2 * 2; }

  // From this lane's place in a tile.
  __device__ __forceinline__ void load(const unsigned* w) {
    const uint4* at = reinterpret_cast<const uint4*>(w);
    const uint4 first = at[0];
    high[0] = first.x; high[1] = first.y; high[2] = first.z; high[3] = first.w;
    if (LOW) {
      const uint4 second = at[32];
      low[0] = second.x; low[1] = second.y; low[2] = second.z; low[3] = second.w;
    }
  }
};
// A tile of sixteen rows for so many times eight sequences.
template <int COLS>
struct Sums {
  float of[COLS][4];
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int n = 0; n < COLS; n++) of[n][0] = of[n][1] = of[n][2] = of[n][3] = 0.0f;
  }
  __device__ __forceinline__ void add(const Fragment& w, const unsigned* x) {
#pragma unroll
    for (int n = 0; n < COLS; n++) {
      float part[4];
      if constexpr (LOW) {
        const uint4 four = *reinterpret_cast<const uint4*>(x + n * 8 * PW);
        const unsigned high[2] = {four.x, four.y}, low[2] = {four.z, four.w};
        multiply_halves(part, w.high, w.low, high, low);
      } else {
        const uint2 four = *reinterpret_cast<const uint2*>(x + n * 8 * PW);
        const unsigned high[2] = {four.x, four.y};
        part[0] = part[1] = part[2] = part[3] = 0.0f;
        if (SCALED) mma(part, w.high, high);
        else mma_bfloat16(part, w.high, high);
      }
#pragma unroll
      for (int i = 0; i < 4; i++) of[n][i] += part[i];
    }
  }
};
// Where a lane's first four numbers of a step of depth are.
__device__ __forceinline__ const unsigned* lane_fours(const unsigned* x, int lane) {
  return x + (lane % 4 * XP + lane / 4) * PW;
}
// Adds `count` steps of depth, from this lane's places. First halves alone take few registers, so that more of
// them can be on their way from shared memory at once.
template <int COLS>
__device__ __forceinline__ void multiply(Sums<COLS>& sums, const unsigned* w, const unsigned* x, int count) {
  constexpr int AHEAD = LOW ? 2 : COLS == 1 ? 8 : 4;
#pragma unroll AHEAD
  for (int k = 0; k < count; k++) {
    Fragment f;
    f.load(w + k * FRAGMENT);
    sums.add(f, x + k * STEP);
  }
}

// Two neighbours of a factor, as they lie in memory: those of several tiles are loaded together, and a
// conversion would wait for each.
struct Pair {
  io_t a, b;
  // Their halves, multiplied by a scale, and the larger of their magnitudes.
  __device__ __forceinline__ float split(float scale, unsigned& high, unsigned& low) const {
    split_pair(to_float(a) * scale, to_float(b) * scale, high, low);
    return fmaxf(fabsf(to_float(a)), fabsf(to_float(b)));
  }
};
__device__ __forceinline__ Pair nothing() { return {from_float(0.0f), from_float(0.0f)}; }
constexpr int TOGETHER = 2;  // tiles

// Lays out a factor with a scale of its own, and returns what undoes it. `fill` writes all of the
// factor, multiplied by a scale, and returns the largest magnitude that this thread has seen; `room` is
// WARPS numbers in shared memory that nobody else uses.
template <class F>
__device__ __forceinline__ float lay_out(unsigned* room, F fill) {
  if (!SCALED) {
    fill(1.0f);
    __syncthreads();  // as behind a guess: what the setup zeroes is zero before anybody writes there
    return 1.0f;
  }
  unsigned scale = 137;  // 2^10, good for factors whose largest is between 0.01 and 32
  for (bool guess = true;; guess = false) {
    const float most = fill(power(scale));
    if (!guess) return inverse(scale);
    room[threadIdx.x / 32] = __reduce_max_sync(0xffffffffu, __float_as_uint(most));
    __syncthreads();
    unsigned largest = 0;
    for (int i = 0; i < WARPS; i++) largest = room[i] > largest ? room[i] : largest;
    if (fits(largest, scale)) return inverse(scale);
    scale = scale_for(largest, TOP_OF_FACTORS);
  }
}
