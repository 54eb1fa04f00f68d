// What one block of the large scan owns, and its exchange of the bottleneck with the others.

constexpr int FZ1 = MERGED ? 1 : NP1;
constexpr bool SEPARATE = MASKS == 2;  // each gate multiplies its own masked state
constexpr int SLOTS = FZ1 + (CELL == 1 ? 1 : 0);  // summaries a step hands on to the weight gradients
constexpr int PLANE = KU / 16 * STEP;  // words of one operand
#if D == 0
#if BACKWARD == 0
typedef Project<SEPARATE ? NP1 : 1, (SEPARATE ? 1 : NP1) * NBG * UP, KU, SEPARATE ? PLANE : 0, KRP1> Project1;
typedef Own<Project1, NP1> Expand1;
#else
typedef Project<SEPARATE ? NP1 : 1, NBG * UP, SEPARATE ? KU : NP1 * KU, SEPARATE ? PLANE : 0, KRP1> Project1;
typedef Own<Project1, SEPARATE ? NP1 : 1> Expand1;
#endif
typedef Project<1, NBG * UP, KU, 0, KRP2> Project2;
typedef Own<Project2, 1> Expand2;
#else
#if BACKWARD == 0
typedef Project<SEPARATE ? NP1 : 1, SEPARATE ? DP : FZ1 * DP, KU, SEPARATE ? PLANE : 0, KRP1> Project1;
typedef Expand<NP1, DP, MERGED, KSE1, NCH1> Expand1;
#else
typedef Project<MERGED ? 1 : NP1, DP, MERGED ? NP1 * KU : KU, MERGED ? 0 : PLANE, KRP1> Project1;
typedef Expand<SEPARATE ? NP1 : 1, SEPARATE ? DP : FZ1 * DP, false, KSE1, NCH1> Expand1;
#endif
typedef Project<1, DP, KU, 0, KRP2> Project2;
typedef Expand<1, DP, true, KSE2, NCH2> Expand2;
#endif
constexpr int RANGES = CELL == 1 ? 4 : 2;  // two operands of an exchange
constexpr int PLANES = BACKWARD ? G : SEPARATE ? NP1 : 1;

// Exchange of one projection: the shares of every block, then their sum. One buffer is enough: a
// block sends its next share only after reading every sum, each made of all the present shares.
// Dense: a block reads the shares of its own rows only, so two buffers take turns: it is two steps
// ahead of nobody, since each step takes a share of everybody's.
template <class P, class X>
struct Exchange {
  static constexpr long long SHARES = (long long)NBG * P::M * BB;
  static constexpr long long FLOATS = DENSE ? 2 * SHARES : SHARES + P::M * BB;
  P project;
  X expand;
  float* base;
  unsigned *wp, *we;
  int block;
  Range x_range, z_range;
  __device__ __forceinline__ void open(float* memory, unsigned* first, unsigned* second, int own,
                                       unsigned* ranges) {
    base = memory;
    wp = first;
    we = second;
    block = own;
    x_range = {ranges, 0, 0, 0};
    z_range = {ranges + Range::WORDS, 0, 0, 0};
  }
  __device__ __forceinline__ void run(const unsigned* x, float* work, float* spare, int count,
                                      const Summary& summary) {
    if constexpr (DENSE) {
      const unsigned turn = ~((unsigned)count >> 1) & 1u;
      float* shares = base + (count & 1) * SHARES;
      project.run(wp, x, x_range, shares + (long long)block * P::M * BB, turn);
      X::run(shares, work, spare, block, turn);
    } else {
      const unsigned turn = ~(unsigned)count & 1u;
      project.run(wp, x, x_range, base + (long long)block * P::M * BB, turn);
      P::reduce(base, base + SHARES, spare, block, turn, summary);
      expand.run(we, base + SHARES, work, z_range, turn);
    }
  }
};

struct Factors {
  const io_t *left, *right, *diagonal, *masks;
  int B, unit0;
  __device__ __forceinline__ float project(int g, int k, int i) const {
    if (k >= D || i >= UNITS || unit0 + i >= N) return 0.0f;
    return to_float(right[((TIED ? 0 : g) * (long long)D + k) * N + unit0 + i]);
  }
  __device__ __forceinline__ float expand(int g, int i, int k) const {
    if (k >= D || i >= UNITS || unit0 + i >= N) return 0.0f;
    return to_float(left[((long long)g * N + unit0 + i) * D + k]);
  }
  // Dense: from this block's unit k to row i, and back. Rows come in UP for each block; those that are
  // nobody's have the number N.
  static __device__ __forceinline__ int unit_of(int i) {
    return i % UP < UNITS ? i / UP * UNITS + i % UP : N;
  }
  __device__ __forceinline__ float dense(int g, int i, int k) const {
    const int unit = unit_of(i);
    if (unit >= N || k >= UNITS || unit0 + k >= N) return 0.0f;
    return to_float(left[((long long)g * N + unit) * N + unit0 + k]);
  }
  __device__ __forceinline__ float dense_back(int g, int i, int k) const {
    const int unit = unit_of(i);
    if (unit >= N || k >= UNITS || unit0 + k >= N) return 0.0f;
    return to_float(left[((long long)g * N + unit0 + k) * N + unit]);
  }
  __device__ __forceinline__ float mask(int g, int i, int b, bool valid) const {
    if (MASKS == 0 || !valid) return 1.0f;
    return to_float(masks[((long long)(MASKS == 2 ? g : 0) * B + b) * N + unit0 + i]);
  }
};
__device__ __forceinline__ float read(const io_t* p, bool valid) {
  return valid ? to_float(*p) : 0.0f;
}

#define GROUP_SETUP                                                                               \
  extern __shared__ __align__(16) float smem[];                                                   \
  const int group = blockIdx.x / NBG, block = blockIdx.x % NBG, unit0 = block * UNITS;            \
  typedef Exchange<Project1, Expand1> Exchange1;                                                  \
  typedef Exchange<Project2, Expand2> Exchange2;                                                  \
  unsigned* wp1 = reinterpret_cast<unsigned*>(smem);                                              \
  unsigned* we1 = wp1 + Project1::WEIGHTS;                                                        \
  unsigned* wp2 = we1 + Expand1::WEIGHTS;                                                         \
  unsigned* we2 = wp2 + (CELL == 1 ? Project2::WEIGHTS : 0);                                      \
  unsigned* ranges = we2 + (CELL == 1 ? Expand2::WEIGHTS : 0);                                    \
  unsigned* xs = ranges + RANGES * Range::WORDS;                                                  \
  float* spare = reinterpret_cast<float*>(xs + PLANES * PLANE);                                   \
  float* work = spare + (DENSE ? NT * 4 : 0);                                                     \
  unsigned* room = reinterpret_cast<unsigned*>(spare);                                            \
  float* mine = exchange + group * (Exchange1::FLOATS + (CELL == 1 ? Exchange2::FLOATS : 0));     \
  Exchange1 exchange1;                                                                            \
  exchange1.open(mine, wp1, we1, block, ranges);                                                  \
  const Factors f = {left, right, diagonal, masks, B, unit0};                                     \
  for (int i = threadIdx.x; i < RANGES * Range::WORDS + PLANES * PLANE; i += NT) ranges[i] = 0;   \
  const long long step = (long long)B * N, plane = step * T;                                      \
  int unit[EPT], seq[EPT];                                                                        \
  unsigned at[EPT];                                                                               \
  bool inside[EPT], valid[EPT];                                                                   \
  float diag[G][EPT], mask[G][EPT];                                                               \
  _Pragma("unroll") for (int e = 0; e < EPT; e++) {                                               \
    const int tile = threadIdx.x / 32 + WARPS * e;                                                \
    unit[e] = tile % ROWS32 * 32 + threadIdx.x % 32;                                              \
    seq[e] = tile / ROWS32;                                                                       \
    inside[e] = seq[e] < BB && unit[e] < UNITS;                                                   \
    if (!inside[e]) unit[e] = seq[e] = 0;                                                         \
    const int b = b0 + group * BB + seq[e];                                                       \
    valid[e] = inside[e] && unit0 + unit[e] < N && b < B;                                         \
    at[e] = (unsigned)b * N + unit0 + unit[e];                                                    \
    _Pragma("unroll") for (int g = 0; g < G; g++) {                                               \
      mask[g][e] = f.mask(g, unit[e], b, valid[e]);                                               \
      diag[g][e] = DIAG && valid[e]                                                               \
          ? to_float(diagonal[g * N + unit0 + unit[e]]) * mask[g][e] : 0.0f;                      \
    }                                                                                             \
  }

// Where step t keeps its summaries from `slot` on, for this group's sequences.
#define SUMMARY(slot)                                                                         \
  (Summary{summaries + (((long long)t * B + b0 + group * BB) * SLOTS + (slot)) * D, SLOTS * D,  \
           B - b0 - group * BB})

// The hold of element e at step t.
#define HELD(kind, tensor, e)                                                                 \
  ((kind) == 0 ? 0.0f                                                                         \
               : (kind) == 1 ? read(tensor + (long long)t * B + b0 + group * BB + seq[e], valid[e])      \
                             : read(tensor + t * step + at[e], valid[e]))
