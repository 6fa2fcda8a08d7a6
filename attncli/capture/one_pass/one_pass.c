/* Softmax attention with the statistics of its rows and columns, from one reading of the scores.

   A strip of a few queries of one head is computed at a time: its scores, its softmax, what the statistics need of it and
   its product with the values, while it lies in the processor's second cache. Of the map itself nothing is kept, unless
   the caller gives memory for the weights of some rows. The file includes
   itself once for each instruction set, and `attend` takes the widest one that the processor has. It needs no header but
   the C library's. */

#ifndef LANES

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#define INLINE static inline __attribute__((always_inline))
#define STRIP_FLOATS (1 << 17) /* scores of a strip: half a megabyte, half of a common second cache */
#define MOST_ROWS 64
#define KEY_BLOCK 128 /* values that a product reads at a time: they stay in the first cache */
#define FAR (-87.0f)  /* e to this is the least normal number; what is below has the weight 0 */

enum { COLUMNS = 1, OFFSETS = 2, COLUMN_SQUARES = 4, CENTRED_SQUARES = 8 };
enum { BEST, SUM, ENTROPY, LARGEST, SQUARES, DISTANCE, FIRST, SMALL, CENTRED, LISTED };

/* Strides count floats. `row_statistics` is [LISTED + listed, batch, head, query], `spans` [batch or 1, query, 2]. */
struct attention {
    const float *query, *key, *value;
    const float *bias;  /* added to the scores of the rows from `start` on; NULL: nothing */
    const float *sinks; /* one for each head: takes part in the softmax, and is dropped; NULL: none */
    const int32_t *spans; /* the first key that a query sees and the one after the last; NULL: it sees all */
    const int64_t *listed; /* offsets whose weights A[i, i - offset] are listed */
    const float *vectors;  /* map, key, vector: what maps A and then their transposes are multiplied with; NULL: nothing */
    const int64_t *maps;   /* the maps that are computed, counted over the batch's heads; NULL: all */
    float *output;         /* batch, query, head, value */
    float *row_statistics;
    double *columns; /* batch, head, key: sums that grow */
    double *offsets; /* batch, head, queries + keys - 1: sums over diagonals that grow, offset -(keys - 1) first */
    float *weights; /* batch, head, stop - start, written_keys: A of these rows, from key `written_from` on; NULL: not kept */
    float *scores;  /* the same of what the softmax is given */
    double *column_squares; /* batch, head, key: sums that grow */
    double *products;       /* map, vector, key: sums A^T (A v) that grow, as many as there are maps */
    uint32_t *sizes; /* 3, batch, head: the largest |x| of query, key and value, which grow; as bits, so that NaN wins */
    int64_t batch, heads, heads_per_key, queries, keys, width, value_width;
    int64_t start, stop; /* the queries of this call */
    int64_t query_batch, query_head, query_row, key_batch, key_head, key_row;
    int64_t value_batch, value_head, value_row, bias_batch, bias_head, bias_row, span_batch;
    int64_t written_from, written_keys, listed_count, what;
    int64_t vector_count, vector_map; /* vector_map 0: all maps have the same vectors */
    float scale, cap, small; /* cap 0: none; small: weights below are counted */
};

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
INLINE int64_t round_up(int64_t a, int64_t step) { return (a + step - 1) / step * step; }

/* e^x for FAR <= x <= 0, to 2e-7 of itself. */
INLINE float exponential(float x) {
    float whole = __builtin_rintf(x * 1.44269504088896341f);
    float r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    union { uint32_t bits; float number; } power;
    power.bits = ((uint32_t)(int32_t)whole + 127u) << 23;
    return p * power.number;
}

INLINE float hyperbolic_tangent(float x) {
    float size = fabsf(x), square = x * x;
    float e = exponential(size > 40.0f ? -80.0f : -2.0f * size);
    float p = -5.70498872745e-3f;
    p = p * square + 2.06390887954e-2f;
    p = p * square - 5.37397155531e-2f;
    p = p * square + 1.33314422036e-1f;
    p = p * square - 3.33332819422e-1f;
    float near = p * square * x + x;
    float far = copysignf((1.0f - e) / (1.0f + e), x);
    float found = size < 0.625f ? near : far;
    return x != x ? x : found;
}

#define JOIN_(name, suffix) name##_##suffix
#define JOIN(name, suffix) JOIN_(name, suffix)
#define OWN(name) JOIN(name, SUFFIX)

#if defined(__x86_64__)
#define SUFFIX avx512
#define TARGET __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")))
#define LANES 16
#define TILE_ROWS 8
#define TILE_VECTORS 3
#include "one_pass.c"
#define SUFFIX avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define TILE_ROWS 4
#define TILE_VECTORS 3
#include "one_pass.c"
#endif

#define SUFFIX plain
#define TARGET
#define LANES 4
#if defined(__aarch64__)
#define TILE_ROWS 8
#else
#define TILE_ROWS 4
#endif
#define TILE_VECTORS 3
#include "one_pass.c"

/* Which instructions are used: 0 plain, 1 AVX2, 2 AVX-512. */
EXPORT int instructions(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        return 2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 1;
#endif
    return 0;
}

/* Bytes of the arguments: a library that was built from an older file has others. */
EXPORT int64_t arguments_size(void) { return (int64_t)sizeof(struct attention); }

/* How many floats `attend` needs to work in. */
EXPORT int64_t scratch_floats(const struct attention *a) {
    int64_t widest = 64; /* padding of rows for any instruction set */
    int64_t keys = a->keys + widest, value_width = a->value_width + widest;
    int64_t vectors = a->vector_count + widest, beside = value_width + vectors;
    int64_t strip = larger(STRIP_FLOATS, 8 * keys) + MOST_ROWS * widest;
    return keys * a->width + a->keys * beside + strip + MOST_ROWS * (a->width + beside + vectors) +
           4 * keys + MOST_ROWS + 1024;
}

/* Maps `first` ... `last` - 1 of those that are computed; `level` as `instructions` has it. */
EXPORT void attend(const struct attention *a, int64_t first, int64_t last, float *scratch, int level) {
#if defined(__x86_64__)
    if (level == 2) {
        attend_avx512(a, first, last, scratch);
        return;
    }
    if (level == 1) {
        attend_avx2(a, first, last, scratch);
        return;
    }
#endif
    (void)level;
    attend_plain(a, first, last, scratch);
}

#else /* for one instruction set */

#define VECTOR OWN(vector)
#define PANEL (LANES * TILE_VECTORS)

typedef float VECTOR __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* c [rows, vectors] = or += a [rows, depth] b [depth, vectors]; rows and vectors are constants where it is inlined. */
TARGET INLINE void OWN(multiply)(const float *a, int64_t a_row, const float *b, int64_t b_row, float *c, int64_t c_row,
                                 int64_t depth, const int rows, const int vectors, const int add) {
    VECTOR sums[8][4];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            VECTOR zero = {0.0f};
            sums[r][v] = add ? *(const VECTOR *)(c + r * c_row + v * LANES) : zero;
        }
    for (int64_t t = 0; t < depth; t++) {
        VECTOR right[4];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) right[v] = *(const VECTOR *)(b + t * b_row + v * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            float left = a[r * a_row + t];
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) sums[r][v] += left * right[v];
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) *(VECTOR *)(c + r * c_row + v * LANES) = sums[r][v];
}

/* Scores of a strip: strip [rows, to - from] = query [rows, width] panels^T; from is a multiple of a panel. */
TARGET static void OWN(score)(const float *query, const float *panels, float *strip, int64_t strip_row, int64_t rows,
                              int64_t width, int64_t from, int64_t to) {
    for (int64_t key = from; key < to; key += PANEL)
        for (int64_t r = 0; r < rows; r += TILE_ROWS)
            OWN(multiply)(query + r * width, width, panels + key * width, PANEL, strip + r * strip_row + (key - from),
                          strip_row, width, TILE_ROWS, TILE_VECTORS, 0);
}

/* context [rows, value] = strip [rows, keys] value [keys, value], a block of keys at a time. */
TARGET static void OWN(weigh)(const float *strip, int64_t strip_row, const float *value, int64_t value_row,
                              float *context, int64_t rows, int64_t from, int64_t to) {
    memset(context, 0, (size_t)(rows * value_row) * sizeof(float));
    for (int64_t block = from; block < to; block += KEY_BLOCK) {
        int64_t depth = smaller(KEY_BLOCK, to - block);
        for (int64_t column = 0; column < value_row;) {
            int64_t left = (value_row - column) / LANES;
            int vectors = left >= 4 && TILE_ROWS == 8 ? 4 : left >= 3 && left != 4 ? 3 : left >= 2 ? 2 : 1;
            const float *v = value + block * value_row + column;
            for (int64_t r = 0; r < rows; r += 4) {
                const float *s = strip + r * strip_row + (block - from);
                float *c = context + r * value_row + column;
                if (vectors == 4)
                    OWN(multiply)(s, strip_row, v, value_row, c, value_row, depth, 4, 4, 1);
                else if (vectors == 3)
                    OWN(multiply)(s, strip_row, v, value_row, c, value_row, depth, 4, 3, 1);
                else if (vectors == 2)
                    OWN(multiply)(s, strip_row, v, value_row, c, value_row, depth, 4, 2, 1);
                else
                    OWN(multiply)(s, strip_row, v, value_row, c, value_row, depth, 4, 1, 1);
            }
            column += vectors * LANES;
        }
    }
}

/* The bits of the largest |x| here, or `most` if these are more. */
TARGET INLINE uint32_t OWN(find_size)(const float *x, int64_t count, uint32_t most) {
#pragma omp simd reduction(max : most)
    for (int64_t f = 0; f < count; f++) {
        uint32_t bits;
        memcpy(&bits, x + f, sizeof bits);
        bits &= 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    return most;
}

/* Keys as panels of [feature, PANEL], the last one filled with zeros. */
TARGET static uint32_t OWN(pack_keys)(const float *key, int64_t key_row, int64_t keys, int64_t width, float *panels) {
    uint32_t size = 0;
    for (int64_t j = 0; j < keys; j++) size = OWN(find_size)(key + j * key_row, width, size);
    for (int64_t start = 0; start < keys; start += PANEL) {
        float *panel = panels + start * width;
        int64_t count = smaller(PANEL, keys - start);
        if (count < PANEL) memset(panel, 0, (size_t)(PANEL * width) * sizeof(float));
        for (int64_t t = 0; t < width; t += 16) {
            int64_t end = smaller(t + 16, width);
            for (int64_t j = 0; j < count; j++)
                for (int64_t f = t; f < end; f++) panel[f * PANEL + j] = key[(start + j) * key_row + f];
        }
    }
    return size;
}

/* Rows of values, or of vectors, filled with zeros up to `padded`. */
TARGET static uint32_t OWN(pack_values)(const float *value, int64_t row, int64_t keys, int64_t width, int64_t padded,
                                        float *packed, int64_t packed_row) {
    uint32_t size = 0;
    for (int64_t j = 0; j < keys; j++) {
        size = OWN(find_size)(value + j * row, width, size);
        memcpy(packed + j * packed_row, value + j * row, (size_t)width * sizeof(float));
        memset(packed + j * packed_row + width, 0, (size_t)(padded - width) * sizeof(float));
    }
    return size;
}

TARGET static uint32_t OWN(pack_queries)(const float *query, int64_t row, int64_t rows, int64_t padded, int64_t width,
                                         float scale, float *packed) {
    uint32_t size = 0;
    memset(packed + rows * width, 0, (size_t)((padded - rows) * width) * sizeof(float));
    for (int64_t r = 0; r < rows; r++) {
        size = OWN(find_size)(query + r * row, width, size);
        for (int64_t f = 0; f < width; f++) packed[r * width + f] = query[r * row + f] * scale;
    }
    return size;
}

TARGET static void OWN(cap_scores)(float *s, int64_t count, float cap) {
    float inverse = 1.0f / cap;
#pragma omp simd
    for (int64_t j = 0; j < count; j++) s[j] = cap * hyperbolic_tangent(s[j] * inverse);
}

TARGET static void OWN(add_bias)(float *s, const float *bias, int64_t count) {
#pragma omp simd
    for (int64_t j = 0; j < count; j++) s[j] += bias[j];
}

TARGET static float OWN(largest)(const float *s, int64_t count) {
    float lanes[4 * LANES], most = -INFINITY; /* clang makes no vector reduction of a maximum */
    int64_t whole = count / (4 * LANES) * (4 * LANES);
    for (int l = 0; l < 4 * LANES; l++) lanes[l] = most;
    for (int64_t j = 0; j < whole; j += 4 * LANES)
        for (int l = 0; l < 4 * LANES; l++) lanes[l] = s[j + l] > lanes[l] ? s[j + l] : lanes[l];
    for (int l = 0; l < 4 * LANES; l++) most = lanes[l] > most ? lanes[l] : most;
    for (int64_t j = whole; j < count; j++) most = s[j] > most ? s[j] : most;
    return most;
}

/* Scores become e^(score - most); sums of e, e (score - most), e^2 and e |query - key|. */
TARGET static void OWN(exponentials)(float *s, int64_t count, float most, int32_t away, float sums[4]) {
    float whole = 0.0f, below = 0.0f, squares = 0.0f, distance = 0.0f;
#pragma omp simd reduction(+ : whole, below, squares, distance)
    for (int32_t j = 0; j < (int32_t)count; j++) {
        float z = s[j] - most;
        float near = z < FAR ? FAR : z;
        float e = exponential(near);
        e = z < FAR ? 0.0f : e;
        s[j] = e;
        whole += e;
        below += e * near;
        squares += e * e;
        distance += e * fabsf((float)(away - j));
    }
    sums[0] = whole, sums[1] = below, sums[2] = squares, sums[3] = distance;
}

/* Adds a row's weights to the sums of columns; how many of them are small. */
TARGET static float OWN(add_columns)(const float *s, int64_t count, float inverse, float small, float *columns) {
    float few = 0.0f;
#pragma omp simd reduction(+ : few)
    for (int64_t j = 0; j < count; j++) {
        float weight = s[j] * inverse;
        columns[j] += weight;
        few += weight < small ? 1.0f : 0.0f;
    }
    return few;
}

/* Sum of the squares of a row's weights less those of uniform attention over all keys. */
TARGET static float OWN(centred_squares)(const float *s, int64_t count, float inverse, int64_t keys) {
    float uniform = 1.0f / (float)keys, found = (float)(keys - count) * uniform * uniform;
#pragma omp simd reduction(+ : found)
    for (int64_t j = 0; j < count; j++) found += (s[j] * inverse - uniform) * (s[j] * inverse - uniform);
    return found;
}

TARGET static void OWN(add_column_squares)(const float *s, int64_t count, float inverse, float *squares) {
#pragma omp simd
    for (int64_t j = 0; j < count; j++) squares[j] += (s[j] * inverse) * (s[j] * inverse);
}

/* Adds A^T (A v) of a strip to the products of its head: strip [rows, keys] as e^score, whose products with the vectors
   are in `context` [rows, vector]. */
TARGET static void OWN(add_products)(const struct attention *a, const float *strip, int64_t strip_row,
                                     const float *context, int64_t context_row, const float *inverse, int64_t rows,
                                     int64_t from, int64_t high, float *turned, double *products) {
    int64_t padded = round_up(a->vector_count, TILE_ROWS);
    float sums[TILE_ROWS * PANEL];
    for (int64_t v = 0; v < padded; v++)
        for (int64_t r = 0; r < rows; r++)
            turned[v * MOST_ROWS + r] =
                v < a->vector_count ? context[r * context_row + v] * inverse[r] * inverse[r] : 0.0f;
    for (int64_t key = from; key < high; key += PANEL)
        for (int64_t v = 0; v < padded; v += TILE_ROWS) {
            OWN(multiply)(turned + v * MOST_ROWS, MOST_ROWS, strip + (key - from), strip_row, sums, PANEL, rows,
                          TILE_ROWS, TILE_VECTORS, 0);
            int64_t count = smaller(PANEL, high - key), vectors = smaller(TILE_ROWS, a->vector_count - v);
            for (int64_t n = 0; n < vectors; n++)
                for (int64_t j = 0; j < count; j++)
                    products[(v + n) * a->keys + key + j] += (double)sums[n * PANEL + j];
        }
}

/* Adds a row's weights to the sums of diagonals, which are stored by rising key: diagonals[0] is that of the first one. */
TARGET static void OWN(add_diagonals)(const float *s, int64_t count, float inverse, float *diagonals) {
#pragma omp simd
    for (int64_t j = 0; j < count; j++) diagonals[j] += s[j] * inverse;
}

TARGET static void OWN(write_context)(const float *context, int64_t width, float inverse, float *output) {
    for (int64_t f = 0; f < width; f++) output[f] = context[f] * inverse;
}

/* Keeps a row that begins with key `first`, times `factor`, and 0 for the keys that its query does not see. */
TARGET static void OWN(write_row)(const struct attention *a, float *written, int64_t unit, int64_t query, const float *row,
                                 int64_t first, int64_t count, float factor) {
    int64_t before = first - a->written_from;
    float *cells = written + (unit * (a->stop - a->start) + query - a->start) * a->written_keys;
    memset(cells, 0, (size_t)before * sizeof(float));
#pragma omp simd
    for (int64_t j = 0; j < count; j++) cells[before + j] = row[j] * factor;
    memset(cells + before + count, 0, (size_t)(a->written_keys - before - count) * sizeof(float));
}

/* One row of a strip whose first column is key `low`, and which ends before key `high`; the inverse of its sum. */
TARGET static float OWN(take_row)(const struct attention *a, int64_t item, int64_t head, int64_t query, float *s,
                                  int64_t low, int64_t high, int64_t first, int64_t stop, float *columns,
                                  float *column_squares, float *diagonals) {
    int64_t count = stop - first, cells = a->batch * a->heads * a->queries;
    float *row = s + (first - low), sums[4];
    if (a->cap > 0.0f) OWN(cap_scores)(row, count, a->cap);
    if (a->bias)
        OWN(add_bias)
    (row, a->bias + item * a->bias_batch + head * a->bias_head + (query - a->start) * a->bias_row + first, count);
    int64_t unit = item * a->heads + head;
    if (a->scores) OWN(write_row)(a, a->scores, unit, query, row, first, count, 1.0f);
    float best = OWN(largest)(row, count), most = best, taken = 0.0f;
    if (a->sinks && a->sinks[head] > most) most = a->sinks[head];
    OWN(exponentials)(row, count, most, (int32_t)(query - first), sums);
    if (a->sinks) taken = expf(a->sinks[head] - most);
    float total = sums[0] + taken, inverse = 1.0f / total;
    if (a->weights) OWN(write_row)(a, a->weights, unit, query, row, first, count, inverse);
    memset(s, 0, (size_t)(first - low) * sizeof(float));
    memset(s + (stop - low), 0, (size_t)(high - stop) * sizeof(float));
    float few = 0.0f;
    if (a->what & COLUMNS) few = OWN(add_columns)(row, count, inverse, a->small, columns + first);
    if (a->what & COLUMN_SQUARES) OWN(add_column_squares)(row, count, inverse, column_squares + first);
    if (a->what & OFFSETS) OWN(add_diagonals)(row, count, inverse, diagonals + (first - query));
    float *found = a->row_statistics + unit * a->queries + query;
    found[BEST * cells] = best;
    found[SUM * cells] = sums[0] * inverse;
    found[ENTROPY * cells] = (logf(total) * sums[0] - sums[1]) * inverse;
    found[LARGEST * cells] = expf(best - most) * inverse;
    found[SQUARES * cells] = sums[2] * inverse * inverse;
    found[DISTANCE * cells] = sums[3] * inverse;
    found[SMALL * cells] = few;
    if (a->what & CENTRED_SQUARES) found[CENTRED * cells] = OWN(centred_squares)(row, count, inverse, a->keys);
    found[FIRST * cells] = first == 0 ? row[0] * inverse : 0.0f;
    for (int64_t n = 0; n < a->listed_count; n++) {
        int64_t key = query - a->listed[n];
        found[(LISTED + n) * cells] = key >= first && key < stop ? s[key - low] * inverse : NAN;
    }
    return inverse;
}

INLINE int64_t OWN(span)(const struct attention *a, int64_t item, int64_t query, int64_t side) {
    if (!a->spans) return side ? a->keys : 0;
    return a->spans[item * a->span_batch + 2 * query + side];
}

TARGET static void OWN(attend)(const struct attention *a, int64_t first, int64_t last, float *scratch) {
    int64_t value_width = round_up(a->value_width, LANES), vectors = round_up(a->vector_count, LANES);
    int64_t value_row = value_width + vectors, keys = round_up(a->keys, PANEL);
    int64_t most_rows = larger(8, smaller(MOST_ROWS, STRIP_FLOATS / larger(1, keys) / 8 * 8));
    float *panels = scratch, *values = panels + keys * a->width, *query = values + a->keys * value_row;
    float *context = query + MOST_ROWS * a->width, *strip = context + MOST_ROWS * value_row;
    float *columns = strip + most_rows * keys, *column_squares = columns + keys, *diagonals = column_squares + keys;
    float *turned = diagonals + keys + MOST_ROWS, inverse[MOST_ROWS];
    int64_t packed = -1, units = a->batch * a->heads;
    uint32_t key_size = 0, value_size = 0;
    for (int64_t number = first; number < last; number++) {
        int64_t unit = a->maps ? a->maps[number] : number;
        int64_t item = unit / a->heads, head = unit % a->heads, group = head / a->heads_per_key;
        int64_t source = item * a->heads + group;
        if (source != packed) {
            /* of a few rows, the keys that they see; else all, whose sizes are asked for */
            int64_t seen = a->weights ? 0 : a->keys;
            for (int64_t r = a->start; r < a->stop && seen < a->keys; r++) seen = larger(seen, OWN(span)(a, item, r, 1));
            const float *key = a->key + item * a->key_batch + group * a->key_head;
            key_size = OWN(pack_keys)(key, a->key_row, seen, a->width, panels);
            const float *value = a->value + item * a->value_batch + group * a->value_head;
            value_size = OWN(pack_values)(value, a->value_row, seen, a->value_width, value_width, values, value_row);
            packed = source;
        }
        if (a->vectors)
            OWN(pack_values)(a->vectors + number * a->vector_map, a->vector_count, a->keys, a->vector_count, vectors,
                             values + value_width, value_row);
        uint32_t *query_size = a->sizes + unit;
        query_size[units] = key_size, query_size[2 * units] = value_size;
        for (int64_t start = a->start; start < a->stop; start += most_rows) {
            int64_t count = smaller(most_rows, a->stop - start), rows = round_up(count, TILE_ROWS);
            int64_t low = a->keys, high = 0;
            for (int64_t r = 0; r < count; r++) {
                low = smaller(low, OWN(span)(a, item, start + r, 0));
                high = larger(high, OWN(span)(a, item, start + r, 1));
            }
            int64_t from = low / PANEL * PANEL, strip_row = round_up(high - from, PANEL);
            const float *asked = a->query + item * a->query_batch + head * a->query_head + start * a->query_row;
            uint32_t size = OWN(pack_queries)(asked, a->query_row, count, rows, a->width, a->scale, query);
            *query_size = size > *query_size ? size : *query_size;
            OWN(score)(query, panels, strip, strip_row, rows, a->width, from, high);
            /* diagonal key - query = -(start + count - 1) ... is stored from index 0 on */
            int64_t shift = start + count - 1;
            if (a->what & COLUMNS) memset(columns + low, 0, (size_t)(high - low) * sizeof(float));
            if (a->what & COLUMN_SQUARES) memset(column_squares + low, 0, (size_t)(high - low) * sizeof(float));
            if (a->what & OFFSETS) memset(diagonals + low, 0, (size_t)(high - low + count) * sizeof(float));
            for (int64_t r = 0; r < count; r++)
                inverse[r] = OWN(take_row)(a, item, head, start + r, strip + r * strip_row, from, high,
                                           OWN(span)(a, item, start + r, 0), OWN(span)(a, item, start + r, 1), columns,
                                           column_squares, diagonals + shift);
            memset(strip + count * strip_row, 0, (size_t)((rows - count) * strip_row) * sizeof(float));
            OWN(weigh)(strip, strip_row, values, value_row, context, rows, from, high);
            for (int64_t r = 0; r < count; r++)
                OWN(write_context)(context + r * value_row, a->value_width, inverse[r],
                                   a->output + ((item * a->queries + start + r) * a->heads + head) * a->value_width);
            if (a->vectors)
                OWN(add_products)
            (a, strip, strip_row, context + value_width, value_row, inverse, count, from, high, turned,
             a->products + number * a->vector_count * a->keys);
            double *received = a->columns + unit * a->keys;
            if (a->what & COLUMNS)
                for (int64_t j = low; j < high; j++) received[j] += (double)columns[j];
            double *squares = a->column_squares + unit * a->keys;
            if (a->what & COLUMN_SQUARES)
                for (int64_t j = low; j < high; j++) squares[j] += (double)column_squares[j];
            double *away = a->offsets + unit * (a->queries + a->keys - 1) + a->keys - 1;
            if (a->what & OFFSETS)
                for (int64_t j = low; j < high + count - 1; j++) away[shift - j] += (double)diagonals[j];
        }
    }
}

#undef VECTOR
#undef PANEL
#undef SUFFIX
#undef TARGET
#undef LANES
#undef TILE_ROWS
#undef TILE_VECTORS
#endif
