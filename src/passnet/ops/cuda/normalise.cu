// Batch normalisation over the N rows of every column: y = (x - m) / (s + EPSILON) with mean m and
// deviation s, and out = y scale + shift. A block has 32 columns, and 16 threads share the rows of
// each. x[stack, row, column] lies at stack * apart + row * step + column; all else is dense.
//
// Compile-time constants: EPSILON, MOMENTUM.

constexpr int COLUMNS = 32, SHARES = 16;
constexpr int AT_ONCE = 8;  // rows that a thread loads before it uses the first

// Calls use(row, load(row)) for this thread's rows, from first to last.
template <typename Load, typename Use>
__device__ __forceinline__ void each_row(int N, Load load, Use use) {
#pragma unroll 1
  for (int base = threadIdx.x / COLUMNS; base < N; base += AT_ONCE * SHARES) {
    decltype(load(0)) values[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
      if (base + i * SHARES < N) values[i] = load(base + i * SHARES);
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
      if (base + i * SHARES < N) use(base + i * SHARES, values[i]);
  }
}

// The sum over a column from the parts of its threads: always added in the same order.
__device__ __forceinline__ float column_sum(float part, float (&parts)[SHARES][COLUMNS]) {
  const int lane = threadIdx.x % COLUMNS;
  parts[threadIdx.x / COLUMNS][lane] = part;
  __syncthreads();
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < SHARES; i++) sum += parts[i][lane];
  return sum;
}

// statistics, a plane of each: a first mean, what it lacks, the deviation. The first mean is reckoned
// from the first row, so that it is exact where all rows are equal; the second pass finds what it lacks.
extern "C" __global__ void __launch_bounds__(COLUMNS * SHARES)
normalise_forward(const float* __restrict__ x, const float* __restrict__ scale,
                  const float* __restrict__ shift, float* __restrict__ running_mean,
                  float* __restrict__ running_deviation, float* __restrict__ out,
                  float* __restrict__ statistics, long long apart, long long step, int N,
                  int columns) {
  __shared__ float parts[3][SHARES][COLUMNS];
  const int column = blockIdx.x * COLUMNS + threadIdx.x % COLUMNS;
  const bool inside = column < columns;
  const int rows = inside ? N : 0;
  const int at = blockIdx.y * columns + column, plane = gridDim.y * columns;
  const float* from = x + blockIdx.y * apart + column;
  float* to = out + (long long)blockIdx.y * N * columns + column;
  auto load = [&](int row) { return from[row * step]; };

  const float first = inside ? from[0] : 0.0f;
  float sum = 0.0f, squares = 0.0f;
  each_row(rows, load, [&](int, float v) { sum += v - first; });
  const float mean = first + column_sum(sum, parts[0]) / N;
  sum = 0.0f;
  each_row(rows, load, [&](int, float v) {
    sum += v - mean;
    squares = fmaf(v - mean, v - mean, squares);
  });
  const float rest = column_sum(sum, parts[1]) / N;
  const float variance = fmaf(-rest, rest, column_sum(squares, parts[2]) / N);
  const float deviation = sqrtf(variance < 0.0f ? 0.0f : variance);

  const float by = 1.0f / (deviation + EPSILON);
  const float a = inside && scale ? scale[at] : 1.0f, b = inside && shift ? shift[at] : 0.0f;
  each_row(rows, load, [&](int row, float v) {
    to[(long long)row * columns] = fmaf((v - mean - rest) * by, a, b);
  });
  if (inside && threadIdx.x < COLUMNS) {
    statistics[at] = mean;
    statistics[plane + at] = rest;
    statistics[2 * plane + at] = deviation;
    running_mean[at] = fmaf(MOMENTUM, mean + rest - running_mean[at], running_mean[at]);
    running_deviation[at] = fmaf(MOMENTUM, deviation - running_deviation[at], running_deviation[at]);
  }
}

// dx = scale ((g - mean(g)) / (s + EPSILON) - y mean(g y) / s) for the gradient g of the result; where
// s is zero, so is y and what it contributes. dx lies as x does.
extern "C" __global__ void __launch_bounds__(COLUMNS * SHARES)
normalise_backward(const float* __restrict__ x, const float* __restrict__ grad,
                   const float* __restrict__ statistics, const float* __restrict__ scale,
                   float* __restrict__ dx, float* __restrict__ dscale, float* __restrict__ dshift,
                   long long apart, long long step, int N, int columns) {
  struct Row {
    float y, g;
  };
  __shared__ float parts[2][SHARES][COLUMNS];
  const int column = blockIdx.x * COLUMNS + threadIdx.x % COLUMNS;
  const bool inside = column < columns;
  const int rows = inside ? N : 0;
  const int at = blockIdx.y * columns + column, plane = gridDim.y * columns;
  const float* from = x + blockIdx.y * apart + column;
  const float* above = grad + (long long)blockIdx.y * N * columns + column;
  float* to = dx + blockIdx.y * apart + column;
  const float mean = inside ? statistics[at] : 0.0f;
  const float rest = inside ? statistics[plane + at] : 0.0f;
  const float deviation = inside ? statistics[2 * plane + at] : 0.0f;
  const float by = 1.0f / (deviation + EPSILON);
  auto load = [&](int row) {
    return Row{(from[row * step] - mean - rest) * by, above[(long long)row * columns]};
  };

  float level = 0.0f, along = 0.0f;
  each_row(rows, load, [&](int, Row r) {
    level += r.g;
    along = fmaf(r.g, r.y, along);
  });
  level = column_sum(level, parts[0]);
  along = column_sum(along, parts[1]);

  const float a = inside && scale ? scale[at] : 1.0f;
  const float centre = level / N, slope = deviation == 0.0f ? 0.0f : along / N / deviation;
  each_row(rows, load, [&](int row, Row r) {
    to[row * step] = a * fmaf(r.g - centre, by, -slope * r.y);
  });
  if (inside && threadIdx.x < COLUMNS) {
    dscale[at] = along;
    dshift[at] = level;
  }
}
