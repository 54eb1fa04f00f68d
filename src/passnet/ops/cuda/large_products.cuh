// A cooperative grid scans BB sequences per group of NBG blocks; each block owns UNITS units and
// keeps their share of the factors in shared memory. The rank-wide bottleneck is summed across the
// group through L2 in a fixed order, so results repeat bit for bit.
//
// Compile-time constants beside those of the small scan: NT threads, BB sequences, NBG blocks,
// UNITS units for each, KRP* steps of depth whose projection stays in registers, KSE* warps that
// share one product, NCH* pieces in which z is staged.

constexpr int G = CELL == 2 ? 4 : 3;
constexpr bool DENSE = D == 0;  // no bottleneck: what is projected are the gates' own rows
constexpr int DD = DENSE ? 1 : D;
constexpr bool MERGED = TIED && MASKS != 2;
constexpr int NP1 = CELL == 1 ? 2 : G;
constexpr int WARPS = NT / 32;
constexpr int COLS = (BB + 7) / 8;             // tiles of eight sequences
constexpr int XS = BB <= 8 ? 8 : BB + 8;       // row strides of 8 or 24 modulo 32 avoid conflicts
constexpr int KU = (UNITS + 7) / 8 * 8;        // units as depth of a product
constexpr int MU = (UNITS + 15) / 16;          // units as tiles of rows
constexpr int YS = MU * 16 + 4;
constexpr int BT = BB / 4;
constexpr int FLIGHT = KRP1 > 3 ? 4 : 8;  // packets a thread awaits at once
constexpr int EPT = (KU / 8 * BT + WARPS - 1) / WARPS;

// A packet is four floats written and read as one 128-bit access; the last bit of the fourth says
// which pass over the buffer wrote it, so a reader needs no flag, fence or barrier.
__device__ __forceinline__ void send(float* p, float a, float b, float c, float d, unsigned turn) {
  const unsigned last = (__float_as_uint(d) & ~1u) | turn;
  store_packet(p, __float_as_uint(a), __float_as_uint(b), __float_as_uint(c), last);
}
__device__ __forceinline__ bool arrived(const float4& v, unsigned turn) {
  return (__float_as_uint(v.w) & 1u) == turn;
}
__device__ __forceinline__ void add4(float4& a, const float4& b) {
  a.x += b.x; a.y += b.y; a.z += b.z; a.w += b.w;
}
// Sums the packets first, first + stride, ... in that order, waiting for each.
template <int MOST>
__device__ __forceinline__ float4 collect(const float* base, long long stride, int first, int step,
                                          int count, unsigned turn) {
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  constexpr int BATCH = MOST < FLIGHT ? MOST : FLIGHT;
  for (int start = first; start < count; start += BATCH * step) {
    float4 v[BATCH];
    bool ready;
    do {
      ready = true;
#pragma unroll
      for (int i = 0; i < BATCH; i++)
        if (start + i * step < count) v[i] = load_packet(base + (start + i * step) * stride);
#pragma unroll
      for (int i = 0; i < BATCH; i++)
        if (start + i * step < count) ready = ready && arrived(v[i], turn);
    } while (!ready);
#pragma unroll
    for (int i = 0; i < BATCH; i++)
      if (start + i * step < count) add4(sum, v[i]);
  }
  return sum;
}

// acc[16 rows, BB] += W[16 rows, 8] X[8, BB]; f is this lane's fragment of W.
__device__ __forceinline__ void multiply_step(float (&acc)[COLS][4], const float4& f,
                                              const float* xp) {
  unsigned high[4], low[4];
  split(f.x, high[0], low[0]);
  split(f.y, high[1], low[1]);
  split(f.z, high[2], low[2]);
  split(f.w, high[3], low[3]);
#pragma unroll
  for (int n = 0; n < COLS; n++) {
    unsigned xh[2], xl[2];
    split(xp[n * 8], xh[0], xl[0]);
    split(xp[4 * XS + n * 8], xh[1], xl[1]);
    multiply_halves(acc[n], high, low, xh, xl);
  }
}
__device__ __forceinline__ const float* lane_column(const float* x) {
  return x + (threadIdx.x % 4) * XS + threadIdx.x % 32 / 4;
}
// The same over count steps of depth; w holds fragments in lane order.
__device__ __forceinline__ void multiply(float (&acc)[COLS][4], const float* w, const float* x,
                                         int count) {
  const float* wp = w + threadIdx.x % 32 * 4;
  const float* xp = lane_column(x);
#pragma unroll 2
  for (int k = 0; k < count; k++)
    multiply_step(acc, *reinterpret_cast<const float4*>(wp + k * 128), xp + k * 8 * XS);
}
// Row and depth of element i of a fragment held by this lane.
__device__ __forceinline__ int fragment_row(int i) { return i % 128 / 16 + (i % 2) * 8; }
__device__ __forceinline__ int fragment_depth(int i) { return i % 16 / 4 + (i % 4 / 2) * 4; }

// The sums z of one step as the weight gradients read them: a row for each sequence.
struct Summary {
  float* rows;
  int width, count;
  __device__ __forceinline__ void keep(int k, int first, const float4& v) const {
    const float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (first + i < count) rows[(long long)(first + i) * width + k] = values[i];
  }
};

// This block's share of z: part[g * ROWS + row, b] = sum over own k of w[g, k, row] * x[g, k, b].
// The first KR steps of depth keep their weights in registers, the rest in shared memory.
template <int NG, int ROWS, int DEPTH, int XG, int KREG>
struct Project {
  static constexpr int MT = (ROWS + 15) / 16;
  static constexpr int KT = DEPTH / 8;
  static constexpr int KR = KREG < KT ? KREG : KT;
  static constexpr int KW = KT - KR;
  static constexpr int M = NG * ROWS;
  static constexpr int C4 = M * BT;
  static constexpr int WEIGHTS = NG * MT * KW * 128;
  static constexpr int SLICE = (C4 + NBG - 1) / NBG;
  static constexpr int ROUNDS = (NG * MT + WARPS - 1) / WARPS;
  float4 held[ROUNDS][KR > 0 ? KR : 1];

  template <class W>
  __device__ __forceinline__ void load(float* w, W weight) {
    for (int i = threadIdx.x; i < WEIGHTS; i += NT) {
      const int kt = KR + i / 128 % (KW > 0 ? KW : 1), tile = i / (128 * (KW > 0 ? KW : 1));
      const int row = tile % MT * 16 + fragment_row(i), k = kt * 8 + fragment_depth(i);
      w[i] = row < ROWS ? weight(tile / MT, row, k) : 0.0f;
    }
#pragma unroll
    for (int r = 0; r < ROUNDS; r++)
#pragma unroll
      for (int kt = 0; kt < KR; kt++) {
        const int tile = threadIdx.x / 32 + r * WARPS, lane4 = threadIdx.x % 32 * 4;
        float v[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int j = 0; j < 4; j++) {
          const int row = tile % MT * 16 + fragment_row(lane4 + j);
          const int k = kt * 8 + fragment_depth(lane4 + j);
          if (tile < NG * MT && row < ROWS) v[j] = weight(tile / MT, row, k);
        }
        held[r][kt] = make_float4(v[0], v[1], v[2], v[3]);
      }
  }
  __device__ __forceinline__ void run(const float* w, const float* x, float* part,
                                      unsigned turn) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
      const int tile = threadIdx.x / 32 + r * WARPS;
      if (tile >= NG * MT) break;
      const int mt = tile % MT, g = tile / MT;
      float acc[COLS][4] = {};
      const float* xp = lane_column(x + g * XG);
#pragma unroll
      for (int k = 0; k < KR; k++) {
        float4 f = held[r][k];
        // Keeps the compiler from splitting the weights before the time loop, at twice the registers.
        conceal(f);
        multiply_step(acc, f, xp + k * 8 * XS);
      }
      if (KW > 0) multiply(acc, w + tile * KW * 128, x + g * XG + KR * 8 * XS, KW);
      // Neighbouring lanes trade halves so that each holds four sequences of one row.
      const bool odd = lane & 1;
      const int row = mt * 16 + lane / 4 + (odd ? 8 : 0);
#pragma unroll
      for (int n = 0; n < COLS; n++) {
        const float a = __shfl_xor_sync(0xffffffffu, odd ? acc[n][0] : acc[n][2], 1);
        const float b = __shfl_xor_sync(0xffffffffu, odd ? acc[n][1] : acc[n][3], 1);
        const int col = n * 8 + (lane % 4 / 2) * 4;
        if (row < ROWS && col < BB)
          send(part + (g * ROWS + row) * BB + col, odd ? a : acc[n][0], odd ? b : acc[n][1],
               odd ? acc[n][2] : a, odd ? acc[n][3] : b, turn);
      }
    }
  }
  // This block's slice of z, summed over the shares of the whole group.
  static __device__ __forceinline__ void reduce(const float* parts, float* z, float* work, int block,
                                                unsigned turn, const Summary& summary) {
    constexpr int FIT = NT / SLICE > 0 ? NT / SLICE : 1;
    constexpr int LANES = FIT > 16 ? (NBG < 16 ? NBG : 16) : (FIT < NBG ? FIT : NBG);
    for (int base = 0; base < SLICE; base += NT) {
      const int c = base + threadIdx.x % SLICE, lane = threadIdx.x / SLICE;
      const int column = block * SLICE + c;
      const bool mine = lane < LANES && c < SLICE && column < C4;
      float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (mine)
        sum = collect<(NBG + LANES - 1) / LANES>(parts + column * 4, C4 * 4ll, lane, LANES, NBG, turn);
      if (LANES > 1) {
        if (lane < LANES) reinterpret_cast<float4*>(work)[threadIdx.x] = sum;
        __syncthreads();
        if (lane == 0) {
#pragma unroll
          for (int s = 1; s < LANES; s++)
            add4(sum, reinterpret_cast<float4*>(work)[s * SLICE + threadIdx.x]);
        }
      }
      if (lane == 0 && mine) {
        send(z + column * 4, sum.x, sum.y, sum.z, sum.w, turn);
        summary.keep(column / BT, column % BT * 4, sum);
      }
    }
    if (LANES > 1) __syncthreads();
  }
};

// y[g, ks, b, i]: shares of sum over k of w[g, k, i] * z[g, k, b] for this block's units
template <int NG, int K, bool SHARED_Z, int KS, int NCH>
struct Expand {
  static constexpr int KC = ((K + NCH - 1) / NCH + 7) / 8 * 8;  // depth of one staged piece
  static constexpr int KT = KC / 8;
  static constexpr int KJ = (KT + KS - 1) / KS;
  static constexpr int JOBS = NG * MU * KS;
  static constexpr int ROUNDS = (JOBS + WARPS - 1) / WARPS;
  static constexpr int WEIGHTS = NG * MU * NCH * KT * 128;
  static constexpr int ZG = SHARED_Z ? 1 : NG;
  static_assert(NCH == 1 || ROUNDS == 1, "sums over several pieces stay in registers");

  template <class W>
  static __device__ __forceinline__ void load(float* w, W weight) {
    for (int i = threadIdx.x; i < WEIGHTS; i += NT) {
      const int kt = i / 128 % (NCH * KT), mt = i / (128 * NCH * KT) % MU;
      const int g = i / (128 * NCH * KT * MU);
      const int u = mt * 16 + fragment_row(i), k = kt * 8 + fragment_depth(i);
      w[i] = u < UNITS && k < K ? weight(u, g, k) : 0.0f;
    }
  }
  // Waits for one piece of z and lays it out for the products.
  static __device__ __forceinline__ void stage(const float* z, float* work, int base, unsigned turn) {
    constexpr int SWEEP = NT / BT, SWEEPS = (KC + SWEEP - 1) / SWEEP;
    constexpr int LOADS = ZG * SWEEPS, BATCH = LOADS < FLIGHT ? LOADS : FLIGHT;
    const int b4 = threadIdx.x % BT * 4, k0 = threadIdx.x / BT;
    const float* from = z + (base + k0) * BB + b4;
    float* to = work + k0 * XS + b4;
#pragma unroll
    for (int first = 0; first < LOADS; first += BATCH) {
      float4 v[BATCH];
      bool ready;
      do {
        ready = true;
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
          const int g = (first + i) / SWEEPS, k = (first + i) % SWEEPS * SWEEP;
          v[i] = make_float4(0.0f, 0.0f, 0.0f, __uint_as_float(turn));
          if (first + i < LOADS && k0 + k < KC && base + k0 + k < K)
            v[i] = load_packet(from + (g * K + k) * BB);
        }
#pragma unroll
        for (int i = 0; i < BATCH; i++) ready = ready && arrived(v[i], turn);
      } while (!ready);
#pragma unroll
      for (int i = 0; i < BATCH; i++) {
        const int g = (first + i) / SWEEPS, k = (first + i) % SWEEPS * SWEEP;
        if (first + i < LOADS && k0 + k < KC)
          *reinterpret_cast<float4*>(to + (g * KC + k) * XS) = v[i];
      }
    }
  }
  static __device__ __forceinline__ void products(float (&acc)[ROUNDS][COLS][4], const float* w,
                                                  const float* work, int piece) {
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
      const int job = threadIdx.x / 32 + r * WARPS;
      if (job < JOBS) {
        const int ks = job % KS, mt = job / KS % MU, g = job / (KS * MU);
        const int first = ks * KJ, count = KT - first < KJ ? KT - first : KJ;
        multiply(acc[r], w + (((g * MU + mt) * NCH + piece) * KT + first) * 128,
                 work + ((SHARED_Z ? 0 : g * KC) + first * 8) * XS, count);
      }
    }
  }
  static __device__ __forceinline__ void run(const float* w, const float* z, float* work,
                                             unsigned turn) {
    float acc[ROUNDS][COLS][4] = {};
#pragma unroll 1
    for (int piece = 0; piece < NCH; piece++) {
      if (piece) __syncthreads();
      stage(z, work, piece * KC, turn);
      __syncthreads();
      products(acc, w, work, piece);
    }
    __syncthreads();
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
      const int job = threadIdx.x / 32 + r * WARPS;
      if (job < JOBS) {
        const int ks = job % KS, mt = job / KS % MU, g = job / (KS * MU);
#pragma unroll
        for (int n = 0; n < COLS; n++)
#pragma unroll
          for (int i = 0; i < 4; i++) {
            const int b = n * 8 + (lane % 4) * 2 + i % 2, u = mt * 16 + lane / 4 + i / 2 * 8;
            if (b < BB) work[((g * KS + ks) * BB + b) * YS + u] = acc[r][n][i];
          }
      }
    }
    __syncthreads();
  }
  static __device__ __forceinline__ float read(const float* work, int g, int b, int i) {
    float sum = work[(g * KS * BB + b) * YS + i];
#pragma unroll
    for (int s = 1; s < KS; s++) sum += work[((g * KS + s) * BB + b) * YS + i];
    return sum;
  }
};

// Dense matrices project straight to the units: each block sums the shares of its own rows, and
// nothing has to be sent back. y[g, b, i] for this block's units.
template <class P, int NG>
struct Own {
  static constexpr int WEIGHTS = 0, PACKETS = NG * UNITS * BT;
  static constexpr int FIT = NT / PACKETS > 0 ? NT / PACKETS : 1;
  static constexpr int LANES = FIT < NBG ? FIT : NBG;
  template <class W>
  static __device__ __forceinline__ void load(float*, W) {}
  static __device__ __forceinline__ void run(const float* parts, float* work, float* spare,
                                             int unit0, unsigned turn) {
    for (int base = 0; base < PACKETS; base += NT) {
      const int c = base + threadIdx.x % PACKETS, lane = threadIdx.x / PACKETS;
      const int g = c / (UNITS * BT), u = c / BT % UNITS, b = c % BT * 4;
      const bool mine = lane < LANES && c < PACKETS && unit0 + u < N;
      float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (mine)
        sum = collect<(NBG + LANES - 1) / LANES>(parts + ((long long)(g * N + unit0 + u) * BB + b),
                                                 (long long)P::M * BB, lane, LANES, NBG, turn);
      if (LANES > 1) {
        reinterpret_cast<float4*>(spare)[threadIdx.x] = sum;
        __syncthreads();
        if (lane == 0 && mine) {
#pragma unroll
          for (int s = 1; s < LANES; s++)
            add4(sum, reinterpret_cast<float4*>(spare)[s * PACKETS + threadIdx.x]);
        }
      }
      if (lane == 0 && c < PACKETS) {
        float* to = work + (g * BB + b) * YS + u;
        to[0] = sum.x;
        to[YS] = sum.y;
        to[2 * YS] = sum.z;
        to[3 * YS] = sum.w;
      }
    }
    __syncthreads();
  }
  static __device__ __forceinline__ float read(const float* work, int g, int b, int i) {
    return work[(g * BB + b) * YS + i];
  }
};
