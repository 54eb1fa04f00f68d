// The two products of a bottleneck: what a block projects into it, and what it expands from it.

constexpr int G = CELL == 2 ? 4 : 3;
constexpr bool DENSE = D == 0;  // no bottleneck: what is projected are the gates' own rows
constexpr int DP = DENSE ? 4 : (D + 3) / 4 * 4;  // rows of one gate's z: packets have four
constexpr bool MERGED = TIED && MASKS != 2;
constexpr int NP1 = CELL == 1 ? 2 : G;
constexpr int KU = (UNITS + 15) / 16 * 16;     // units as depth of a product
constexpr int MU = (UNITS + 15) / 16;          // units as tiles of rows
constexpr int UP = (UNITS + 3) / 4 * 4;        // units as packets of rows
constexpr int YS = MU * 16 + 4;

// Dense: the blocks of a group stand in DOWN rows of ACROSS. A block multiplies the units of its column into
// those of its row, so units are spread down the columns and shares summed up across the rows.
constexpr int DOWN = NBG / ACROSS;
constexpr bool SPREAD = DENSE && DOWN > 1;  // else a block has all of its column
constexpr int KD = SPREAD ? (DOWN * UP + 15) / 16 * 16 : KU;  // units of a column as depth
// Elements of a thread, where a lane has so many units side by side: a warp has as many times 32 of one sequence.
constexpr int lane_rows(int beside) { return (UNITS + 32 * beside - 1) / (32 * beside); }
constexpr int elements(int beside) { return (lane_rows(beside) * BB + WARPS - 1) / WARPS * beside; }
// Two are one access, if all pairs are aligned; not where more lanes would have nothing to do. In sixteen bits
// single ones have been faster.
constexpr bool PAIRS = LOW && !DENSE && N % 2 == 0 && UNITS % 2 == 0 && elements(2) <= elements(1);
constexpr int BESIDE = PAIRS ? 2 : 1, LANE_ROWS = lane_rows(BESIDE), EPT = elements(BESIDE);
constexpr int FLIGHT = KRP1 > 2 ? 4 : 8;  // packets a thread awaits at once

// RESTS: a sequence whose state is held whole takes no part in a step. An exchange is among all of a
// group or, where nobody in its second half takes part, among the first.
constexpr int HALF = RESTS && BB >= 16 ? BB / 2 : BB;

// A packet is four rows of one sequence, written and read as one 128-bit access; the last bit of the
// fourth says which pass over the buffer wrote it, so a reader needs no flag, fence or barrier.
struct Turns {
  // How often either half took part, of which one buffer needs the last bit alone. The second half may
  // have missed some.
  unsigned first, second;
  static __device__ __forceinline__ unsigned after(unsigned count) { return DENSE ? count + 1 : count ^ 1u; }
  __device__ __forceinline__ unsigned count(int b) const { return b < HALF ? first : second; }
  __device__ __forceinline__ unsigned of(int b) const { return DENSE ? (count(b) + 1) / 2 & 1u : count(b); }
  // Dense: where the buffer whose turn it is begins, of two that are `apart`.
  __device__ __forceinline__ long long place(int b, long long apart) const {
    return DENSE && count(b) & 1u ? apart : 0;
  }
  __device__ __forceinline__ Turns next() const { return {after(first), after(second)}; }
};
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
// Sums the packets first, first + step, ... in that order, waiting for each.
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

// Which sequence of the batch has which seat of a group. Where some may leave early, they are seated by
// the order given, the longest first, and the halves of groups come from either end of it, so that long
// ones and short ones share a group.
struct Seats {
  int first, sequence, B;  // `sequence` has the seat of this lane's number; B: nobody
  __device__ __forceinline__ Seats(int group, int groups, int start, int many, const long long* order)
      : first(start + group * BB), sequence(many), B(many) {
    if (!RESTS) return;
    const int lane = threadIdx.x % 32, half = lane < HALF ? group : 2 * groups - 1 - group;
    const int seat = start + half * HALF + lane % HALF;
    if (lane < BB && seat < B) sequence = order ? order[seat] : seat;
  }
  // All lanes ask together.
  __device__ __forceinline__ int of(int b) const {
    return RESTS ? __shfl_sync(0xffffffffu, sequence, b) : first + b;
  }
};

// The sums z of one step as the weight gradients read them: a row for each sequence.
struct Summary {
  struct __align__(4 * sizeof(io_t)) Four {
    io_t of[4];
  };
  io_t* rows;
  int width;
  const Seats& seats;
  __device__ __forceinline__ void keep(int row, int sequence, const float4& v) const {
    if (sequence >= seats.B) return;
    const int k = row % DP;
    io_t* to = rows + (long long)sequence * width + row / DP * D + k;
    const Four four = {from_float(v.x), from_float(v.y), from_float(v.z), from_float(v.w)};
    if (D % 4 == 0) {
      *reinterpret_cast<Four*>(to) = four;
    } else {
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (k + i < D) to[i] = four.of[i];
    }
  }
};

// Where a warp has the tiles of its jobs, KT each, one job in a round: the first few in registers, the
// others in shared memory.
template <int JOBS, int KT, int MOST>
struct Kept {
  static constexpr int ROUNDS = (JOBS + WARPS - 1) / WARPS;
  static constexpr int COUNT = MOST < ROUNDS * KT ? MOST : ROUNDS * KT;  // in registers
  static __device__ constexpr int kept(int r) {
    return COUNT <= r * KT ? 0 : COUNT >= (r + 1) * KT ? KT : COUNT - r * KT;
  }
  static __device__ constexpr int offset(int r) {
    return r == 0 ? 0
                  : offset(r - 1) + (JOBS - (r - 1) * WARPS < WARPS ? JOBS - (r - 1) * WARPS : WARPS) *
                                        (KT - kept(r - 1)) * FRAGMENT;
  }
};

// This block's share of z: part[g * ROWS + row, b] = sum over own k of w[g, k, row] * x[g, k, b].
template <int NG, int ROWS, int DEPTH, int XG, int KEPT>
struct Project {
  static constexpr int MT = (ROWS + 15) / 16, JOBS = NG * MT;
  static constexpr int KT = DEPTH / 16;
  static constexpr int M = NG * ROWS;
  static constexpr int ROUNDS = (JOBS + WARPS - 1) / WARPS;
  typedef Kept<JOBS, KT, KEPT> Tiles;
  static constexpr int WEIGHTS = Tiles::offset(ROUNDS);
  Fragment held[Tiles::COUNT > 0 ? Tiles::COUNT : 1];
  float unscale;

  // Word j of a lane's fragment. A lane ends with four neighbouring rows of z, for which rows 2 i, 2 i + 1,
  // 2 i + 8 and 2 i + 9 of a tile stand together.
  template <class W>
  static __device__ __forceinline__ Pair word(W weight, int job, int kt, int lane, int j) {
    const int at = Fragment::row(lane, j), k = kt * 16 + Fragment::depth(lane, j);
    const int row = job % MT * 16 + at % 8 / 2 * 4 + at / 8 * 2 + at % 2;
    if (job >= JOBS || row >= ROWS) return nothing();
    return {weight(job / MT, row, k), weight(job / MT, row, k + 1)};
  }
  template <class W>
  __device__ __forceinline__ void load(unsigned* w, unsigned* room, W weight) {
    unscale = lay_out(room, [&](float scale) {
      float most = 0.0f;
      const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
      for (int r = 0; r < ROUNDS; r++) {
        const int job = warp + r * WARPS;
#pragma unroll
        for (int k = 0; k < KT; k++)
          if (k < Tiles::kept(r)) {
            Fragment& f = held[r * KT + k];
            Pair words[4];
#pragma unroll
            for (int j = 0; j < 4; j++) words[j] = word(weight, job, k, lane, j);
#pragma unroll
            for (int j = 0; j < 4; j++) most = fmaxf(most, words[j].split(scale, f.high[j], f.low[j]));
          }
        if (job >= JOBS) break;
        unsigned* to = w + Tiles::offset(r) + warp * (KT - Tiles::kept(r)) * FRAGMENT + lane * 4;
        for (int start = Tiles::kept(r); start < KT; start += TOGETHER) {
          Pair words[TOGETHER][4];
#pragma unroll
          for (int i = 0; i < TOGETHER; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
              words[i][j] = start + i < KT ? word(weight, job, start + i, lane, j) : nothing();
#pragma unroll
          for (int i = 0; i < TOGETHER; i++, to += FRAGMENT) {
            if (start + i >= KT) break;
#pragma unroll
            for (int j = 0; j < 4; j++) {
              unsigned high, low;
              most = fmaxf(most, words[i][j].split(scale, high, low));
              to[j] = high;
              if (LOW) to[128 + j] = low;
            }
          }
        }
      }
      return most;
    });
  }
  template <int MANY>
  __device__ __forceinline__ void run(const unsigned* w, const unsigned* x, const Range& range,
                                      float* part, long long apart, const Turns& turns) const {
    const int thread = thread_again(), warp = thread / 32, lane = thread % 32;
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
      const int job = warp + r * WARPS;
      if (job >= JOBS) break;
      const int mt = job % MT, g = job / MT;
      const unsigned* xp = lane_fours(x + g * XG, lane);
      Sums<MANY / 8> sums;
      sums.clear();
#pragma unroll
      for (int k = 0; k < KT; k++)
        if (k < Tiles::kept(r)) sums.add(held[r * KT + k], xp + k * STEP);
      multiply(sums, w + Tiles::offset(r) + warp * (KT - Tiles::kept(r)) * FRAGMENT + lane * 4,
               xp + Tiles::kept(r) * STEP, KT - Tiles::kept(r));
      // Lanes of neighbouring rows trade columns so that each holds four rows of one sequence.
      const bool odd = lane & 4;
      const int four = mt * 4 + lane / 8;
#pragma unroll
      for (int n = 0; n < MANY / 8; n++) {
        const int b = n * 8 + lane % 4 * 2 + odd;
        const float back = unscale * inverse(range.scale(b));
        const float v[4] = {sums.of[n][0], sums.of[n][1], sums.of[n][2], sums.of[n][3]};
        const float first = __shfl_xor_sync(0xffffffffu, odd ? v[0] : v[1], 4);
        const float second = __shfl_xor_sync(0xffffffffu, odd ? v[2] : v[3], 4);
        if (four < ROWS / 4)
          send(part + turns.place(n * 8, apart) + ((g * (ROWS / 4) + four) * BB + b) * 4,
               (odd ? first : v[0]) * back, (odd ? v[1] : first) * back,
               (odd ? second : v[2]) * back, (odd ? v[3] : second) * back, turns.of(n * 8));
      }
    }
  }
  // This block's slice of z, summed over the shares of the whole group.
  template <int MANY>
  static __device__ __forceinline__ void reduce(const float* parts, float* z, float* work, int block,
                                                const Turns& turns, const Summary& summary) {
    constexpr int PACKETS = M / 4 * MANY, SLICE = (PACKETS + NBG - 1) / NBG;
    constexpr int FIT = NT / SLICE > 0 ? NT / SLICE : 1;
    constexpr int LANES = FIT > 16 ? (NBG < 16 ? NBG : 16) : (FIT < NBG ? FIT : NBG);
    const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const int thread = thread_again();
    for (int base = 0; base < SLICE; base += NT) {
      const int c = base + thread % SLICE, lane = thread / SLICE;
      const int column = block * SLICE + c, four = column / MANY, b = column % MANY;
      const int at = (four * BB + b) * 4;
      const bool mine = lane < LANES && c < SLICE && column < PACKETS;
      float4 sum = zero;
      if (mine)
        sum = collect<(NBG + LANES - 1) / LANES>(parts + at, (long long)M * BB, lane, LANES, NBG,
                                                 turns.of(b));
      if (LANES > 1) {
        if (lane < LANES) reinterpret_cast<float4*>(work)[thread] = sum;
        __syncthreads();
        if (lane == 0) {
#pragma unroll
          for (int s = 1; s < LANES; s++)
            add4(sum, reinterpret_cast<float4*>(work)[s * SLICE + thread]);
        }
      }
      if (lane == 0 && mine) send(z + at, sum.x, sum.y, sum.z, sum.w, turns.of(b));
      const int here = summary.seats.of(b), other = MANY < BB ? summary.seats.of(b + MANY) : 0;
      if (lane == 0 && mine) {
        summary.keep(four * 4, here, sum);
        if (MANY < BB) summary.keep(four * 4, other, zero);
      }
    }
    if (LANES > 1) __syncthreads();
  }
  // What is handed on where nobody took part.
  static __device__ __forceinline__ void pass(int block, const Summary& summary) {
    constexpr int PACKETS = DENSE ? 0 : M / 4 * BB;
    for (int base = block * NT; base < PACKETS; base += NBG * NT) {
      const int column = base + threadIdx.x, sequence = summary.seats.of(column % BB);
      if (column < PACKETS)
        summary.keep(column / BB * 4, sequence, make_float4(0.0f, 0.0f, 0.0f, 0.0f));
    }
    __syncthreads();  // as after an exchange: `Range` counts on one between its steps
  }
};

// Numbers of other blocks as operands of a product: K of them for each of ZG planes, KC at a time.
template <int ZG, int K, int KC>
struct Staged {
  template <int MANY>
  static __device__ __forceinline__ void stage(const float* z, long long apart, unsigned* to, int piece,
                                               const Turns& turns, const Range& range) {
    constexpr int EACH = KC / 4 * MANY, COUNT = ZG * EACH;  // packets
    constexpr int LOADS = (COUNT + NT - 1) / NT, BATCH = LOADS < FLIGHT ? LOADS : FLIGHT;
    const int thread = thread_again(), b = thread % MANY;
    const unsigned turn = turns.of(b);
    z += turns.place(b, apart);
    const float scale = power(range.scale(b));
    float most = 0.0f;
#pragma unroll
    for (int start = 0; start < LOADS; start += BATCH) {
      float4 v[BATCH];
      bool ready;
      do {
        ready = true;
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
          const int c = thread + (start + i) * NT, g = c / EACH, four = c % EACH / MANY + piece * (KC / 4);
          v[i] = make_float4(0.0f, 0.0f, 0.0f, __uint_as_float(turn));
          if (c < COUNT && four < K / 4)
            v[i] = load_packet(z + ((g * (K / 4) + four) * BB + b) * 4);
        }
#pragma unroll
        for (int i = 0; i < BATCH; i++) ready = ready && arrived(v[i], turn);
      } while (!ready);
#pragma unroll
      for (int i = 0; i < BATCH; i++)
        most = fmaxf(most, fmaxf(fmaxf(fabsf(v[i].x), fabsf(v[i].y)),
                                 fmaxf(fabsf(v[i].z), fabsf(v[i].w))));
      if (start + BATCH >= LOADS) range.note_lanes<MANY>(b, most);
#pragma unroll
      for (int i = 0; i < BATCH; i++) {
        const int c = thread + (start + i) * NT;
        if (c < COUNT) store_four(to + (c / MANY * XP + b) * PW, v[i], scale);
      }
    }
  }
  // Waits for one piece and lays it out, with scales that suit it.
  template <int MANY>
  static __device__ __forceinline__ void run(const float* z, long long apart, unsigned* to, int piece,
                                             const Turns& turns, Range& range) {
    range.begin();
    do {
      stage<MANY>(z, apart, to, piece, turns, range);
      __syncthreads();
    } while (range.left());
  }
};

// What came out of a product for the units that a lane has side by side.
struct __align__(4 * BESIDE) Results {
  float of[BESIDE];
  static __device__ __forceinline__ Results at(const float* p) { return *reinterpret_cast<const Results*>(p); }
  __device__ __forceinline__ void add(const Results& other) {
#pragma unroll
    for (int i = 0; i < BESIDE; i++) of[i] += other.of[i];
  }
};

// y[g, ks, b, i]: shares of sum over k of w[g, k, i] * z[g, k, b] for this block's units
template <int NG, int K, bool SHARED_Z, int KS, int NCH>
struct Expand {
  static constexpr int KC = ((K + NCH - 1) / NCH + 15) / 16 * 16;  // depth of one staged piece
  static constexpr int KT = KC / 16;
  static constexpr int KJ = (KT + KS - 1) / KS;
  static constexpr int JOBS = NG * MU * KS;
  static constexpr int ROUNDS = (JOBS + WARPS - 1) / WARPS;
  static constexpr int WEIGHTS = NG * MU * NCH * KT * FRAGMENT;
  static constexpr int ZG = SHARED_Z ? 1 : NG;
  static_assert(NCH == 1 || ROUNDS == 1, "sums over several pieces stay in registers");
  float unscale;

  template <class W>
  __device__ __forceinline__ void load(unsigned* w, unsigned* room, W weight) {
    unscale = lay_out(room, [&](float scale) {
      float most = 0.0f;
      constexpr int WORDS = WEIGHTS / FRAGMENT * 128, MANY = 4 * TOGETHER;
      for (int start = threadIdx.x; start < WORDS; start += MANY * NT) {
        Pair words[MANY];
#pragma unroll
        for (int s = 0; s < MANY; s++) {
          const int i = start + s * NT, lane = i % 128 / 4, j = i % 4, tile = i / 128;
          const int kt = tile % (NCH * KT), mt = tile / (NCH * KT) % MU, g = tile / (NCH * KT * MU);
          const int u = mt * 16 + Fragment::row(lane, j), k = kt * 16 + Fragment::depth(lane, j);
          words[s] = nothing();
          if (i < WORDS && u < UNITS && k < K) words[s].a = weight(u, g, k);
          if (i < WORDS && u < UNITS && k + 1 < K) words[s].b = weight(u, g, k + 1);
        }
#pragma unroll
        for (int s = 0; s < MANY; s++) {
          const int i = start + s * NT;
          if (i >= WORDS) break;
          unsigned high, low;
          most = fmaxf(most, words[s].split(scale, high, low));
          w[i / 128 * FRAGMENT + i % 128] = high;
          if (LOW) w[i / 128 * FRAGMENT + i % 128 + 128] = low;
        }
      }
      return most;
    });
  }
  template <int MANY>
  __device__ __forceinline__ void run(const unsigned* w, const float* z, float* work, Range& range,
                                      const Turns& turns) const {
    const int lane = threadIdx.x % 32;
    unsigned* staged = reinterpret_cast<unsigned*>(work);
    float y[ROUNDS][MANY / 8][4] = {};
#pragma unroll 1
    for (int piece = 0; piece < NCH; piece++) {
      if (piece) __syncthreads();
      Staged<ZG, K, KC>::template run<MANY>(z, 0, staged, piece, turns, range);
#pragma unroll
      for (int r = 0; r < ROUNDS; r++) {
        const int job = threadIdx.x / 32 + r * WARPS;
        if (job < JOBS) {
          const int ks = job % KS, mt = job / KS % MU, g = job / (KS * MU);
          const int first = ks * KJ, count = KT % KS == 0 || KT - first > KJ ? KJ : KT - first;
          Sums<MANY / 8> sums;
          sums.clear();
          multiply(sums, w + (((g * MU + mt) * NCH + piece) * KT + first) * FRAGMENT + lane * 4,
                   lane_fours(staged, lane) + ((SHARED_Z ? 0 : g * KT) + first) * STEP, count);
#pragma unroll
          for (int n = 0; n < MANY / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
              y[r][n][i] = fmaf(sums.of[n][i],
                                unscale * inverse(range.scale(n * 8 + lane % 4 * 2 + i % 2)), y[r][n][i]);
        }
      }
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
      const int job = threadIdx.x / 32 + r * WARPS;
      if (job < JOBS) {
        const int ks = job % KS, mt = job / KS % MU, g = job / (KS * MU);
#pragma unroll
        for (int n = 0; n < MANY / 8; n++)
#pragma unroll
          for (int i = 0; i < 4; i++) {
            const int b = n * 8 + lane % 4 * 2 + i % 2, u = mt * 16 + lane / 4 + i / 2 * 8;
            work[((g * KS + ks) * BB + b) * YS + u] = y[r][n][i];
          }
      }
    }
    __syncthreads();
  }
  static __device__ __forceinline__ void read(const float* work, int g, int b, int i, Results& y) {
    y = Results::at(work + (g * KS * BB + b) * YS + i);
#pragma unroll
    for (int s = 1; s < KS; s++) y.add(Results::at(work + ((g * KS + s) * BB + b) * YS + i));
  }
};

// Dense matrices project straight to the units, UP rows for each block of a row: it sums the shares of its
// own, and nothing has to be sent back. y[g, b, i] for this block's units.
template <class P, int NG>
struct Own {
  static constexpr int WEIGHTS = 0;
  template <class W>
  __device__ __forceinline__ void load(unsigned*, unsigned*, W) {}
  template <int MANY>
  static __device__ __forceinline__ void run(const float* parts, long long apart, float* work,
                                             float* spare, int column, const Turns& turns) {
    constexpr int PACKETS = NG * (UP / 4) * MANY, FIT = NT / PACKETS > 0 ? NT / PACKETS : 1;
    constexpr int LANES = FIT < ACROSS ? FIT : ACROSS;
    for (int base = 0; base < PACKETS; base += NT) {
      const int c = base + threadIdx.x % PACKETS, lane = threadIdx.x / PACKETS;
      const int g = c / (UP / 4 * MANY), four = c / MANY % (UP / 4), b = c % MANY;
      float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (lane < LANES && c < PACKETS)
        sum = collect<(ACROSS + LANES - 1) / LANES>(
            parts + turns.place(b, apart) + ((g * ACROSS + column) * (UP / 4) + four) * BB * 4 + b * 4,
            (long long)P::M * BB, lane, LANES, ACROSS, turns.of(b));
      if (LANES > 1) {
        reinterpret_cast<float4*>(spare)[threadIdx.x] = sum;
        __syncthreads();
        if (lane == 0) {
#pragma unroll
          for (int s = 1; s < LANES; s++)
            add4(sum, reinterpret_cast<float4*>(spare)[s * PACKETS + threadIdx.x]);
        }
      }
      if (lane == 0 && c < PACKETS)
        *reinterpret_cast<float4*>(work + (g * BB + b) * YS + four * 4) = sum;
    }
    __syncthreads();
  }
  static __device__ __forceinline__ void read(const float* work, int g, int b, int i, Results& y) {
    y = Results::at(work + (g * BB + b) * YS + i);
  }
};
