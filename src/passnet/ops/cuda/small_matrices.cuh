// One block scans one sequence; the factors stay in registers (and shared memory for what is over).
//
// Compile-time constants: N units, D rank (0 for dense), CELL 0 GRU reset after, 1 GRU reset before,
// 2 LSTM; DIAG, TIED, MASKS (0 none, 1 shared, 2 per gate), HOLD and HOLD_CELL (0 none, 1 per
// sequence, 2 per unit), INNER; NT threads; UPT units for each S adjacent lanes; STAGES steps under way
// into shared memory; Q1, Q2 lanes per projected row; RR1, RR2 rows and KE1, KE2 chunks kept in registers.

constexpr int G = CELL == 2 ? 4 : 3;
constexpr bool DENSE = D == 0;
constexpr int DD = DENSE ? 1 : D;  // to divide by
constexpr int DUP = S > UPT ? S / UPT : 1;
constexpr int E = UPT > S ? UPT / S : 1;
constexpr bool MERGED = TIED && MASKS != 2;

struct Four { float x, y, z, w; };
__device__ __forceinline__ Four load4(const float* p) {
  const float4 v = *reinterpret_cast<const float4*>(p);
  return {v.x, v.y, v.z, v.w};
}
__device__ __forceinline__ void dot4(float& a, const float* w, const Four& x) {
  a = fmaf(w[0], x.x, a);
  a = fmaf(w[1], x.y, a);
  a = fmaf(w[2], x.z, a);
  a = fmaf(w[3], x.w, a);
}

// y[position(gate, row)] = sum over columns of w(gate, row, column) * x[gate * XS + column]
template <int NG, int ROWS, int COLS, int XS, int QL, int REGROWS>
struct Project {
  static constexpr int PER_GATE = NT / QL / NG;
  static constexpr int RP = (ROWS + PER_GATE - 1) / PER_GATE;
  static constexpr int CJ = (COLS + 4 * QL - 1) / (4 * QL);
  static constexpr int RR = REGROWS < RP ? REGROWS : RP;
  static constexpr int SHARED = (RP - RR) * CJ * 4 * NT;
  typedef ScatterSum<RP, QL / 2> Sum;
  float w[RR > 0 ? RR : 1][CJ * 4];
  float* extra;
  int x_offset, y_index[Sum::LEFT];

  template <class W, class P>
  __device__ __forceinline__ void load(float* shared, W weight, P position) {
    const int q = threadIdx.x % QL, group = threadIdx.x / QL;
    const int gate = group / PER_GATE, base = (group % PER_GATE) * RP;
    const bool used = gate < NG;
    extra = shared + 4 * threadIdx.x;
    x_offset = (used ? gate : 0) * XS + 4 * q;
#pragma unroll
    for (int r = 0; r < RP; r++)
#pragma unroll
      for (int j = 0; j < CJ; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          const int col = 4 * (q + QL * j) + e, row = base + r;
          const float v = used && row < ROWS && col < COLS ? weight(gate, row, col) : 0.0f;
          if (r < RR) w[r][4 * j + e] = v;
          else extra[((r - RR) * CJ + j) * 4 * NT + e] = v;
        }
    int first = 0, limit = RP;
    Sum::rows(threadIdx.x % 32, first, limit);
#pragma unroll
    for (int i = 0; i < Sum::LEFT; i++) {
      const int row = base + first + i;
      const bool mine = used && first + i < limit && row < ROWS;
      y_index[i] = mine ? position(gate, row) : -1;
    }
  }
  __device__ __forceinline__ void run(const float* x, float* y) const {
    float acc[RP];
#pragma unroll
    for (int r = 0; r < RP; r++) acc[r] = 0.0f;
#pragma unroll
    for (int j = 0; j < CJ; j++) {
      const Four v = load4(x + x_offset + 4 * QL * j);
#pragma unroll
      for (int r = 0; r < RP; r++) {
        if (r < RR) {
          dot4(acc[r], &w[r][4 * j], v);
        } else {
          const Four u = load4(extra + ((r - RR) * CJ + j) * 4 * NT);
          const float t[4] = {u.x, u.y, u.z, u.w};
          dot4(acc[r], t, v);
        }
      }
    }
    Sum::run(acc, threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < Sum::LEFT; i++)
      if (y_index[i] >= 0) y[y_index[i]] = acc[i];
  }
};

template <int U, int NO, int MASK>
struct UnitSum {
  static constexpr int H = U > 1 ? U / 2 : 1;
  static __device__ __forceinline__ void run(float* v, int lane) {
    const bool upper = lane & MASK;
#pragma unroll
    for (int i = 0; i < H * NO; i++) {
      const float low = v[i], high = U > 1 ? v[i + H * NO] : low;
      v[i] = (upper ? high : low) + __shfl_xor_sync(0xffffffffu, upper ? low : high, MASK);
    }
    UnitSum<H, NO, MASK / 2>::run(v, lane);
  }
};
template <int U, int NO>
struct UnitSum<U, NO, 0> {
  static __device__ __forceinline__ void run(float*, int) {}
};

// y[unit, o] = sum over k of w(unit, o, k) * z[o * ZS + k], for this thread's E units
template <int NO, int K, int ZS, int REGK>
struct Expand {
  static constexpr int CJ = ((K + 3) / 4 + S - 1) / S;
  static constexpr int CR = REGK < CJ ? REGK : CJ;
  static constexpr int SHARED = (CJ - CR) * UPT * NO * 4 * NT;
  float w[UPT][NO][CR > 0 ? CR * 4 : 1];
  float* extra;

  template <class W>
  __device__ __forceinline__ void load(float* shared, W weight) {
    const int s = threadIdx.x % S, unit0 = (threadIdx.x / S) * UPT;
    extra = shared + 4 * threadIdx.x;
#pragma unroll
    for (int u = 0; u < UPT; u++)
#pragma unroll
      for (int o = 0; o < NO; o++)
#pragma unroll
        for (int j = 0; j < CJ; j++)
#pragma unroll
          for (int e = 0; e < 4; e++) {
            const int k = 4 * (s + S * j) + e;
            const float v = unit0 + u < N && k < K ? weight(unit0 + u, o, k) : 0.0f;
            if (j < CR) w[u][o][4 * j + e] = v;
            else extra[(((j - CR) * UPT + u) * NO + o) * 4 * NT + e] = v;
          }
  }
  __device__ __forceinline__ void run(const float* z, float (&y)[E][NO]) const {
    const int s = threadIdx.x % S;
    // Two partial sums for each output shorten the chain of dependent additions. Dense matrices have
    // no register left for a second.
    constexpr bool TWO = !DENSE && CJ > 1;
    float acc[UPT * NO], odd[UPT * NO];
#pragma unroll
    for (int i = 0; i < UPT * NO; i++) acc[i] = odd[i] = 0.0f;
#pragma unroll
    for (int j = 0; j < CJ; j++) {
      Four v;
#pragma unroll
      for (int o = 0; o < NO; o++) {
        if (o == 0 || ZS > 0) v = load4(z + o * ZS + 4 * (s + S * j));
#pragma unroll
        for (int u = 0; u < UPT; u++) {
          float* a = TWO && j % 2 ? &odd[u * NO + o] : &acc[u * NO + o];
          if (j < CR) {
            dot4(*a, &w[u][o][4 * j], v);
          } else {
            const Four f = load4(extra + (((j - CR) * UPT + u) * NO + o) * 4 * NT);
            const float t[4] = {f.x, f.y, f.z, f.w};
            dot4(*a, t, v);
          }
        }
      }
    }
    if (TWO) {
#pragma unroll
      for (int i = 0; i < UPT * NO; i++) acc[i] += odd[i];
    }
    UnitSum<UPT, NO, S / 2>::run(acc, threadIdx.x % 32);
#pragma unroll
    for (int e = 0; e < E; e++)
#pragma unroll
      for (int o = 0; o < NO; o++) y[e][o] = acc[e * NO + o];
  }
};

// Dense matrices expand the state itself.
struct NoProject {
  static constexpr int SHARED = 0;
  template <class W, class P>
  __device__ __forceinline__ void load(float*, W, P) {}
  __device__ __forceinline__ void run(const float*, float*) const {}
};

template <bool C, class A, class B> struct Pick { typedef A type; };
template <class A, class B> struct Pick<false, A, B> { typedef B type; };

__host__ __device__ constexpr int round_up(int a, int b) { return (a + b - 1) / b * b; }
constexpr int XP = round_up(N, DENSE ? 4 * S : 128);
constexpr int DP = round_up(D > 0 ? D : 1, 4 * S);
constexpr int NP1 = CELL == 1 ? 2 : G;  // gates projected together from the state itself

// Forward: z = R x, then y = L z. Dense: y = W x.
constexpr int FZ1 = MERGED ? 1 : NP1;
typedef Pick<DENSE, NoProject, Project<1, FZ1 * D, N, 0, Q1, RR1>>::type FProject1;
typedef Expand<NP1, DENSE ? N : D, DENSE || MERGED ? 0 : DP, KE1> FExpand1;
typedef Pick<DENSE, NoProject, Project<1, D, N, 0, Q2, RR2>>::type FProject2;
typedef Expand<1, DENSE ? N : D, 0, KE2> FExpand2;

// Backward: z = L^T dy, then dx = R^T z. A shared projection sums over the gates before R^T. Dense:
// dx = W^T dy, over all gates at once.
typedef Pick<DENSE, NoProject,
             Project<MERGED ? 1 : NP1, D, MERGED ? NP1 * XP : N, MERGED ? 0 : XP, Q1, RR1>>::type BProject1;
typedef Expand<1, DENSE ? NP1 * XP : FZ1 * D, 0, KE1> BExpand1;
typedef Pick<DENSE, NoProject, Project<1, D, N, 0, Q2, RR2>>::type BProject2;
typedef Expand<1, DENSE ? N : D, 0, KE2> BExpand2;

constexpr int Z1 = DENSE ? 0 : BACKWARD ? round_up(G * D, 4 * S) : G * DP;
constexpr int Z2 = DENSE ? 0 : DP;

// Hands d-wide summaries of a step on to the weight gradients, [rows, SLOTS, D]: taken from shared
// memory as soon as they are there, stored when nothing waits for it.
constexpr int SLOTS = FZ1 + (CELL == 1 ? 1 : 0);
template <int FIRST, int COUNT, int STRIDE>
struct Summary {
  static constexpr int EACH = (COUNT * D + NT - 1) / NT;
  float value[EACH > 0 ? EACH : 1];
  __device__ __forceinline__ void take(const float* z) {
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      const int k = threadIdx.x + i * NT;
      if (k < COUNT * D) value[i] = z[k / (D ? D : 1) * STRIDE + k % (D ? D : 1)];
    }
  }
  __device__ __forceinline__ void put(io_t* row) const {
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      const int k = threadIdx.x + i * NT;
      if (k < COUNT * D) row[FIRST * D + k] = from_float(value[i]);
    }
  }
};

struct Factors {
  const io_t *left, *right, *diagonal, *masks;
  int B, b;
  __device__ __forceinline__ float mask(int g, int i) const {
    if (MASKS == 0) return 1.0f;
    return to_float(masks[((MASKS == 2 ? g : 0) * B + b) * N + i]);
  }
  // Masks are fixed over time and a block sees one sequence, so they are folded into the factors.
  __device__ __forceinline__ float project(int g, int k, int i) const {
    const float v = to_float(right[((TIED ? 0 : g) * (long long)D + k) * N + i]);
    return MASKS ? v * mask(g, i) : v;
  }
  // A dense matrix is read as the left factor, with the units themselves for its columns.
  __device__ __forceinline__ float expand(int g, int i, int k) const {
    const float v = to_float(left[((long long)g * N + i) * (DENSE ? N : D) + k]);
    return DENSE && MASKS ? v * mask(g, k) : v;
  }
  __device__ __forceinline__ float diag(int g, int i) const {
    return DIAG && i < N ? to_float(diagonal[g * N + i]) * mask(g, i) : 0.0f;
  }
};

// Every plane [T, B, N] has one base, the same for all threads; a thread walks it by a byte offset.
#if WIDE
typedef unsigned long long offset_t;
#else
typedef unsigned offset_t;
#endif
__device__ __forceinline__ io_t read_at(const io_t* base, offset_t offset, int e, bool valid) {
  return read(reinterpret_cast<const io_t*>(reinterpret_cast<const char*>(base) + offset) + e, valid);
}
__device__ __forceinline__ void write_at(io_t* base, offset_t offset, int e, float v) {
  reinterpret_cast<io_t*>(reinterpret_cast<char*>(base) + offset)[e] = from_float(v);
}
// Lanes that hold the same unit store the same value, so only units past the end need a test.
constexpr bool FULL = NT / S * UPT == N;

// Rows of several planes, [T, B, N] each, on their way into shared memory, some steps before they are needed.
// Loads into registers would be as many for each thread, and share the few scoreboards with those that a
// product waits for.
template <int PLANES, bool BACK>
struct Ring {
  static constexpr int ROW = N * (int)sizeof(io_t);
  static constexpr int PIECE = ROW % 16 == 0 ? 16 : ROW % 8 == 0 ? 8 : ROW % 4 == 0 ? 4 : 2;
  static constexpr int EACH = (PLANES * ROW / PIECE + NT - 1) / NT;  // pieces for a thread
  static constexpr int SLOT = round_up(PLANES * ROW, 16);
  static constexpr int SHARED = STAGES * SLOT / 4;
  char* slots;
  const char *from[EACH], *first[EACH];
  int count;  // pieces of a step

  // So many planes are given; `row` says where one has its row of a step. The first step may have it elsewhere,
  // or nowhere: then it is zero.
  template <class R>
  __device__ __forceinline__ void open(float* shared, int planes, int T, R row) {
    slots = reinterpret_cast<char*>(shared);
    count = planes * (ROW / PIECE);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      const int piece = threadIdx.x + i * NT, plane = piece < count ? piece / (ROW / PIECE) : 0;
      const int within = piece % (ROW / PIECE) * PIECE;
      from[i] = reinterpret_cast<const char*>(row(plane, BACK ? T - 1 : 0)) + within;
      const char* start = BACK ? reinterpret_cast<const char*>(row(plane, 0)) : nullptr;
      if (BACK) first[i] = start ? start + within : nullptr;
    }
  }
  // Asks for the next step, t, which is `bytes` further; beyond the ends there is nothing.
  __device__ __forceinline__ void ask(int t, int T, long long bytes) {
    char* to = slots + (unsigned)t % STAGES * SLOT;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      const int piece = threadIdx.x + i * NT;
      const char* at = BACK && t == 0 ? first[i] : from[i];
      const bool there = !BACK || at;
      if ((BACK ? t >= 0 : t < T) && piece < count) {
        if constexpr (PIECE == 2)  // too short to be copied: this waits
          *reinterpret_cast<io_t*>(to + piece * PIECE) = ::read(reinterpret_cast<const io_t*>(at), there);
        else
          copy_async<PIECE>(to + piece * PIECE, at, there);
      }
      from[i] += bytes;
    }
    end_group();
  }
  // Of a step that has arrived for all threads, before the last barrier.
  __device__ __forceinline__ io_t read(int t, int plane, int unit, bool valid) const {
    if (!valid) return from_float(0.0f);
    return reinterpret_cast<const io_t*>(slots + (unsigned)t % STAGES * SLOT)[plane * N + unit];
  }
};
