// What one block of the large scan owns, and its exchange of the bottleneck with the others.

constexpr int FZ1 = MERGED ? 1 : NP1;
constexpr bool SEPARATE = MASKS == 2;  // each gate multiplies its own masked state
constexpr int SLOTS = FZ1 + (CELL == 1 ? 1 : 0);  // summaries a step hands on to the weight gradients
constexpr int PLANE = KD / 16 * STEP;  // words of one operand
#if D == 0
#if BACKWARD == 0
typedef Project<SEPARATE ? NP1 : 1, (SEPARATE ? 1 : NP1) * ACROSS * UP, KD, SEPARATE ? PLANE : 0, KRP1> Project1;
typedef Own<Project1, NP1> Expand1;
#else
typedef Project<SEPARATE ? NP1 : 1, ACROSS * UP, SEPARATE ? KD : NP1 * KD, SEPARATE ? PLANE : 0, KRP1> Project1;
typedef Own<Project1, SEPARATE ? NP1 : 1> Expand1;
#endif
typedef Project<1, ACROSS * UP, KD, 0, KRP2> Project2;
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

// Who takes part in a step and in the next one: the first of a group's sequences, so many. All blocks of
// a group find the same.
struct Party {
  const io_t *hold, *hold_cell;
  const Seats& seats;
  // How much this lane's sequence is held in this step and in the next: ones, if it takes no part.
  float hold_now, cell_now;
  io_t hold_next, cell_next;  // as they lie in memory: nobody waits for them before `learn`
  int now, next;
  Turns turns;

  // Whether element e of this thread is of a sequence b that takes part. For most e all warps have
  // sequences of the same half, which is known beforehand.
  static __device__ __forceinline__ bool among(int many, int e, int b) {
    if (!RESTS) return true;
    const int first = WARPS * (e / BESIDE);
    if ((first + WARPS - 1) / LANE_ROWS < HALF) return many > 0;
    if (first / LANE_ROWS >= HALF) return many == BB;
    return b < many;
  }
  __device__ __forceinline__ bool has(int e, int b) const { return among(now, e, b); }
  __device__ __forceinline__ bool will_have(int e, int b) const { return among(next, e, b); }
  // Begins to read about the step after this one; `learn` then need not wait.
  __device__ __forceinline__ void ask(int t) {
    if (!RESTS) return;
    const bool real = seats.sequence < seats.B;
    const long long at = (long long)t * seats.B + seats.sequence;
    hold_next = real ? hold[at] : from_float(1.0f);
    if (CELL == 2) cell_next = real ? hold_cell[at] : from_float(1.0f);
  }
  __device__ __forceinline__ void learn() {
    if (!RESTS) return;
    const bool moves = to_float(hold_next) != 1.0f || (CELL == 2 && to_float(cell_next) != 1.0f);
    const unsigned moving = __ballot_sync(0xffffffffu, moves);
    next = moving == 0 ? 0 : HALF < BB && moving >> (HALF % 32) == 0 ? HALF : BB;
  }
  // The next step begins. Packets of those who take part are told from those of their last time.
  __device__ __forceinline__ void step() {
    if (RESTS) now = next, hold_now = to_float(hold_next), cell_now = to_float(cell_next);
    if (now > 0) turns.first = Turns::after(turns.first);
    if (HALF < BB && now == BB) turns.second = Turns::after(turns.second);
  }
};

// Exchange of one projection: the shares of every block, then their sum. One buffer is enough: a
// block sends its next share only after reading every sum, each made of all the present shares.
// Dense: a block reads the packets of its own row and column only, so two buffers take turns: it is two
// steps ahead of nobody, since its row's shares of a step follow from everybody's units, each in its column.
// That holds for either half, whatever steps it misses.
template <class P, class X, int OPERANDS>
struct Exchange {
  static constexpr long long SHARES = (long long)NBG * P::M * BB;
  static constexpr int COLUMN = SPREAD ? OPERANDS * DOWN * UP * BB : 0;  // units that are spread down one
  static constexpr long long BUFFER = SHARES + ACROSS * COLUMN;
  static constexpr long long FLOATS = DENSE ? 2 * BUFFER : SHARES + P::M * BB;
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
  // Sends the element e of all threads down the column; those of a warp are neighbouring units of one
  // sequence, and zeros outside of the block.
  __device__ __forceinline__ void spread(const Turns& turns, int plane, int e, float v) const {
    const int tile = threadIdx.x / 32 + WARPS * e, b = tile / LANE_ROWS;
    const int unit = tile % LANE_ROWS * 32 + threadIdx.x % 32;
    const float second = __shfl_xor_sync(0xffffffffu, v, 1), third = __shfl_xor_sync(0xffffffffu, v, 2);
    const float fourth = __shfl_xor_sync(0xffffffffu, v, 3);
    const int four = (plane * DOWN + block / ACROSS) * (UP / 4) + unit / 4;
    if (unit % 4 == 0 && unit < UP && b < BB)
      send(base + turns.place(b, BUFFER) + SHARES + block % ACROSS * COLUMN + (four * BB + b) * 4,
           v, second, third, fourth, turns.of(b));
  }
  template <int MANY, class M>
  __device__ __forceinline__ void among(unsigned* x, float* work, float* spare, const Turns& turns,
                                        const Summary& summary, M meanwhile) {
    float* part = base + (long long)block * P::M * BB;
    if constexpr (DENSE) {
      const int column = block % ACROSS;
      if constexpr (SPREAD)
        Staged<OPERANDS, DOWN * UP, KD>::template run<MANY>(base + SHARES + column * COLUMN, BUFFER, x, 0,
                                                            turns, z_range);
      project.template run<MANY>(wp, x, SPREAD ? z_range : x_range, part, BUFFER, turns);
      meanwhile();
      X::template run<MANY>(part - (long long)column * P::M * BB, BUFFER, work, spare, column, turns);
    } else {
      project.template run<MANY>(wp, x, x_range, part, 0, turns);
      meanwhile();
      P::template reduce<MANY>(base, base + SHARES, spare, block, turns, summary);
      expand.template run<MANY>(we, base + SHARES, work, z_range, turns);
    }
  }
  // Does something else, that nobody waits for, while shares are on their way.
  template <class M>
  __device__ __forceinline__ void run(unsigned* x, float* work, float* spare, const Party& party,
                                      const Summary& summary, M meanwhile) {
    if (!RESTS || party.now == BB) return among<BB>(x, work, spare, party.turns, summary, meanwhile);
    if (HALF < BB && party.now == HALF) return among<HALF>(x, work, spare, party.turns, summary, meanwhile);
    meanwhile();
    P::pass(block, summary);
  }
};

struct Factors {
  const io_t *left, *right, *diagonal, *masks;
  int B, unit0, block;
  // As they lie in memory, and zeros outside.
  __device__ __forceinline__ io_t project(int g, int k, int i) const {
    const bool inside = k < D && i < UNITS && unit0 + i < N;
    return read(right + ((TIED ? 0 : g) * (long long)D + k) * N + unit0 + i, inside);
  }
  __device__ __forceinline__ io_t expand(int g, int i, int k) const {
    const bool inside = k < D && i < UNITS && unit0 + i < N;
    return read(left + ((long long)g * N + unit0 + i) * D + k, inside);
  }
  // Dense: from unit k of this block's column to unit i of its row, and back. Both come in UP for each
  // block; those that are nobody's have the number N.
  static __device__ __forceinline__ int unit_of(int owner, int i) {
    return i < UNITS ? owner * UNITS + i : N;
  }
  __device__ __forceinline__ io_t entry(int g, int to, int from) const {
    return read(left + ((long long)g * N + to) * N + from, to < N && from < N);
  }
  __device__ __forceinline__ int across(int i) const {
    return unit_of(block / ACROSS * ACROSS + i / UP, i % UP);
  }
  __device__ __forceinline__ int down(int k) const {
    return k < DOWN * UP ? unit_of(k / UP * ACROSS + block % ACROSS, k % UP) : N;
  }
  __device__ __forceinline__ io_t dense(int g, int i, int k) const { return entry(g, across(i), down(k)); }
  __device__ __forceinline__ io_t dense_back(int g, int i, int k) const {
    return entry(g, down(k), across(i));
  }
  __device__ __forceinline__ float mask(int g, int i, int b, bool valid) const {
    if (MASKS == 0 || !valid) return 1.0f;
    return to_float(masks[((long long)(MASKS == 2 ? g : 0) * B + b) * N + unit0 + i]);
  }
};

#define GROUP_SETUP                                                                               \
  extern __shared__ __align__(16) float smem[];                                                   \
  const int group = blockIdx.x / NBG, block = blockIdx.x % NBG, unit0 = block * UNITS;            \
  typedef Exchange<Project1, Expand1, BACKWARD || SEPARATE ? NP1 : 1> Exchange1;                   \
  typedef Exchange<Project2, Expand2, 1> Exchange2;                                               \
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
  const Seats seats(group, gridDim.x / NBG, b0, B, order);                                        \
  Party party = {hold, hold_cell, seats, 1.0f, 1.0f, from_float(1.0f), from_float(1.0f), BB, BB, {0, 0}};  \
  const Factors f = {left, right, diagonal, masks, B, unit0, block};                              \
  for (int i = threadIdx.x; i < RANGES * Range::WORDS + PLANES * PLANE; i += NT) ranges[i] = 0;   \
  const long long step = (long long)B * N, plane = step * T;                                      \
  int unit[EPT], seq[EPT];                                                                        \
  unsigned at[EPT];                                                                               \
  bool inside[EPT], valid[EPT];                                                                   \
  float diag[G][EPT], mask[G][EPT];                                                               \
  _Pragma("unroll") for (int e = 0; e < EPT; e++) {                                               \
    const int tile = threadIdx.x / 32 + WARPS * (e / BESIDE);                                     \
    unit[e] = (tile % LANE_ROWS * 32 + threadIdx.x % 32) * BESIDE + e % BESIDE;                   \
    seq[e] = tile / LANE_ROWS;                                                                    \
    inside[e] = seq[e] < BB && unit[e] < UNITS;                                                   \
    if (!inside[e]) unit[e] = 0;                                                                  \
    if (seq[e] >= BB) seq[e] = 0;  /* a warp has one sequence, outside of the block too */         \
    const int b = seats.of(seq[e]);                                                               \
    valid[e] = inside[e] && unit0 + unit[e] < N && b < B;                                         \
    at[e] = (unsigned)b * N + unit0 + unit[e];                                                    \
    _Pragma("unroll") for (int g = 0; g < G; g++) {                                               \
      mask[g][e] = f.mask(g, unit[e], b, valid[e]);                                               \
      diag[g][e] = DIAG && valid[e]                                                               \
          ? to_float(diagonal[g * N + unit0 + unit[e]]) * mask[g][e] : 0.0f;                      \
    }                                                                                             \
  }

// What a lane has side by side, as it lies in memory.
struct __align__(BESIDE * sizeof(io_t)) Beside {
  io_t of[BESIDE];
  static __device__ __forceinline__ Beside read(const io_t* p, bool valid) {
    if constexpr (BESIDE == 1) return {::read(p, valid)};
    return valid ? *reinterpret_cast<const Beside*>(p) : Beside{};
  }
  __device__ __forceinline__ void write(io_t* p) const { *reinterpret_cast<Beside*>(p) = *this; }
};

// Stores stand in the way of what others wait for. Those of sixteen bits have a place in registers until the shares
// of an exchange are sent; float32 ones do not, and are made at once.
constexpr bool LATER = !LOW;

// Where step t keeps its summaries from `slot` on.
#define SUMMARY(slot) \
  (Summary{summaries + ((long long)t * B * SLOTS + (slot)) * D, SLOTS * D, seats})

// The hold of element e at step t, and that of its cell. A warp has one sequence, so a lane knows it.
#define HELD_IN(kind, tensor, known, e)                                                           \
  ((kind) == 0 ? 0.0f                                                                             \
               : RESTS ? __shfl_sync(0xffffffffu, known, seq[e])                                  \
                           : (kind) == 1 ? to_float(read(tensor + (long long)t * B + seats.of(seq[e]), valid[e])) \
                                         : to_float(read(tensor + t * step + at[e], valid[e])))
#define HELD(e) HELD_IN(HOLD, hold, party.hold_now, e)
#define CELL_HELD(e) HELD_IN(HOLD_CELL, hold_cell, party.cell_now, e)
