#include "kevolve.h"
#include <immintrin.h>
#include <omp.h>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#define INL inline __attribute__((always_inline))
#define AI __attribute__((always_inline))

namespace {

constexpr bool kHalf = sizeof(VALUE) == 2;
constexpr int kCols = kHalf ? 32 : 16;  // columns in one 64-byte vector of values
constexpr int kParts = kHalf ? 2 : 1;   // vectors of float sums for it: even and odd columns apart if bfloat16
constexpr int kTile = 128 / kCols;      // vectors in the widest tile
constexpr int kStreams = 4;     // rows of a segment read at so many places at once
constexpr int64_t kLong = 24576;         // bytes from which a segment is read at several places
constexpr int64_t kAhead = 4096;     // bytes to fetch ahead, 0: none
constexpr int64_t kAheadLong = 1536; // the same where a segment is read at several places
constexpr int kEvery = 1;           // of how many lines one is fetched by hand
constexpr auto kHint = _MM_HINT_T0;
using Mask = std::conditional_t<kHalf, __mmask32, __mmask16>;
struct Vec { __m512 p[kParts]; };

template <class F, int... I> INL void unroll_(F &&f, std::integer_sequence<int, I...>) {
    (f(std::integral_constant<int, I>{}), ...);
}
template <int N, class F> INL void unroll(F &&f) { unroll_(f, std::make_integer_sequence<int, N>{}); }

INL Vec nothing() {
    Vec v;
    v.p[0] = _mm512_setzero_ps();
    v.p[kParts - 1] = _mm512_setzero_ps();
    return v;
}
INL Vec widen(__m512i r) {
    Vec v;
    if constexpr (kHalf) {
        v.p[0] = _mm512_castsi512_ps(_mm512_slli_epi32(r, 16));
        v.p[kParts - 1] = _mm512_castsi512_ps(_mm512_and_si512(r, _mm512_set1_epi32((int)0xffff0000u)));
    } else {
        v.p[0] = _mm512_castsi512_ps(r);
    }
    return v;
}
INL Vec load(const VALUE *p) { return widen(_mm512_loadu_si512((const void *)p)); }
INL Vec load(const VALUE *p, Mask m) {
    if constexpr (kHalf) return widen(_mm512_maskz_loadu_epi16(m, (const void *)p));
    else return widen(_mm512_maskz_loadu_epi32((__mmask16)m, (const void *)p));
}
INL Vec plus(Vec a, Vec b) {
    Vec v;
    v.p[0] = _mm512_add_ps(a.p[0], b.p[0]);
    if constexpr (kHalf) v.p[kParts - 1] = _mm512_add_ps(a.p[kParts - 1], b.p[kParts - 1]);
    return v;
}
INL __m512i rounded(__m512 v) { // bfloat16 in the upper halves, the lower ones garbage
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i r = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    return _mm512_mask_mov_epi32(r, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), _mm512_set1_epi32(0x7fc00000));
}
INL __m512i packed(Vec v, float inv) {
    const __m512 f = _mm512_set1_ps(inv);
    if constexpr (kHalf) {
        const __m512i even = _mm512_srli_epi32(rounded(_mm512_mul_ps(v.p[0], f)), 16);
        const __m512i odd = rounded(_mm512_mul_ps(v.p[kParts - 1], f));
        return _mm512_or_si512(even, _mm512_and_si512(odd, _mm512_set1_epi32((int)0xffff0000u)));
    } else {
        return _mm512_castps_si512(_mm512_mul_ps(v.p[0], f));
    }
}
INL void store(VALUE *p, __m512i r) { _mm512_storeu_si512((void *)p, r); }
INL void store(VALUE *p, __m512i r, Mask m) {
    if constexpr (kHalf) _mm512_mask_storeu_epi16((void *)p, m, r);
    else _mm512_mask_storeu_epi32((void *)p, (__mmask16)m, r);
}
INL void keep(float *p, Vec v) {
    _mm512_storeu_ps(p, v.p[0]);
    if constexpr (kHalf) _mm512_storeu_ps(p + 16, v.p[kParts - 1]);
}
INL Vec kept(const float *p) {
    Vec v;
    v.p[0] = _mm512_loadu_ps(p);
    if constexpr (kHalf) v.p[kParts - 1] = _mm512_loadu_ps(p + 16);
    return v;
}
INL Mask last_mask(int64_t columns) {
    const int rest = (int)(columns & (kCols - 1));
    return rest ? (Mask)((1ull << rest) - 1) : (Mask)~0ull;
}

// Sums of rows over NV vectors of columns: into part as they are, or times inv into out.
template <int NV, bool M>
INL void tile_body(const VALUE *x, int64_t rows, int64_t stride, Mask m, float inv, VALUE *out,
                                    float *part) {
    constexpr int A = NV * kParts;
    constexpr int U = A >= 8 ? 2 : A >= 4 ? 4 : A >= 2 ? 4 : 8;
    auto get = [&](const VALUE *p, auto i, auto ahead) AI -> Vec {
        constexpr int I = decltype(i)::value;
        constexpr int64_t D = decltype(ahead)::value;
        if constexpr (D > 0 && I % kEvery == 0) _mm_prefetch((const char *)(p + I * kCols) + D, D == kAhead ? kHint : _MM_HINT_T0);
        if constexpr (M && I == NV - 1) return load(p + I * kCols, m);
        else return load(p + I * kCols);
    };
    Vec acc[U][NV];
    unroll<U>([&](auto u) AI {
        unroll<NV>([&](auto i) AI { acc[decltype(u)::value][decltype(i)::value] = nothing(); });
    });
    int64_t left = rows;
    if (kStreams > 1 && rows * stride * (int64_t)sizeof(VALUE) >= kLong) {
        const int64_t each = rows / kStreams, apart = each * stride;
        const VALUE *y = x;
        for (int64_t r = 0; r < each; r++) {
            unroll<NV>([&](auto i) AI {
                constexpr int I = decltype(i)::value;
                auto some = [&](auto self, auto from, auto n) AI -> Vec {
                    constexpr int F = decltype(from)::value, N = decltype(n)::value;
                    if constexpr (N == 1) return get(y + F * apart, i, std::integral_constant<int64_t, kAheadLong>{});
                    else return plus(self(self, std::integral_constant<int, F>{}, std::integral_constant<int, N / 2>{}),
                                     self(self, std::integral_constant<int, F + N / 2>{}, std::integral_constant<int, N / 2>{}));
                };
                const Vec v = some(some, std::integral_constant<int, 0>{}, std::integral_constant<int, kStreams>{});
                acc[0][I] = plus(acc[0][I], v);
            });
            y += stride;
        }
        x += kStreams * apart;
        left = rows - kStreams * each;
    } else {
        for (; left >= U; left -= U) {
            unroll<U>([&](auto u) AI {
                constexpr int R = decltype(u)::value;
                unroll<NV>([&](auto i) AI {
                    constexpr int I = decltype(i)::value;
                    acc[R][I] = plus(acc[R][I], get(x + R * stride, i, std::integral_constant<int64_t, kAhead>{}));
                });
            });
            x += U * stride;
        }
    }
    if constexpr (NV <= 2 && U == 4) {
        if (left < 4) { // up to three rows without a branch on how many
            unroll<3>([&](auto u) AI {
                constexpr int R = decltype(u)::value;
                const Mask row = left > R ? (Mask)~0ull : (Mask)0;
                unroll<NV>([&](auto i) AI {
                    constexpr int I = decltype(i)::value;
                    acc[R][I] = plus(acc[R][I], load(x + R * stride + I * kCols, M && I == NV - 1 ? (Mask)(row & m) : row));
                });
            });
            left = 0;
        }
    }
    for (; left > 0; left--) {
        unroll<NV>([&](auto i) AI {
            constexpr int I = decltype(i)::value;
            acc[0][I] = plus(acc[0][I], get(x, i, std::integral_constant<int64_t, kAhead>{}));
        });
        x += stride;
    }
    unroll<NV>([&](auto i) AI {
        constexpr int I = decltype(i)::value;
        Vec v = acc[0][I];
        if constexpr (U == 2) v = plus(v, acc[U - 1][I]);
        if constexpr (U == 4) v = plus(plus(v, acc[U / 4][I]), plus(acc[U / 2][I], acc[U - 1][I]));
        if constexpr (U == 8)
            v = plus(plus(plus(v, acc[U / 8][I]), plus(acc[U / 4][I], acc[3 * U / 8][I])),
                     plus(plus(acc[U / 2][I], acc[5 * U / 8][I]), plus(acc[3 * U / 4][I], acc[U - 1][I])));
        if (part) keep(part + I * kCols, v);
        else if constexpr (M && I == NV - 1) store(out + I * kCols, packed(v, inv), m);
        else store(out + I * kCols, packed(v, inv));
    });
}

template <int NV, bool M>
__attribute__((noinline)) void tile(const VALUE *x, int64_t rows, int64_t stride, Mask m, float inv, VALUE *out,
                                    float *part) {
    tile_body<NV, M>(x, rows, stride, m, inv, out, part);
}
// Whole segments b0 to b1 of one tile.
template <int NV, bool M>
__attribute__((noinline)) void walk(const VALUE *values, const INDEX *offsets, int64_t b0, int64_t b1, int64_t dim,
                                    Mask m, VALUE *out) {
    int64_t start = offsets[b0];
    out += b0 * dim;
    for (int64_t b = b0; b < b1; b++) {
        const int64_t stop = offsets[b + 1], count = stop - start;
        const float inv = count > 0 ? 1.0f / (float)count : 0.0f;
        tile_body<NV, M>(values + start * dim, count, dim, m, inv, out, nullptr);
        start = stop;
        out += dim;
    }
}

// dim is a power of two below kCols: a vector holds whole rows, lanes are folded at the end.
__attribute__((noinline)) void thin(const VALUE *x, int64_t rows, int64_t dim, Mask m, float inv, VALUE *out,
                                    float *part) {
    Vec a = nothing(), b = nothing(), c = nothing(), d = nothing();
    int64_t left = rows * dim;
    for (; left >= 4 * kCols; left -= 4 * kCols) {
        if constexpr (kAhead > 0)
            unroll<4 / kEvery>([&](auto i) AI {
                _mm_prefetch((const char *)(x + decltype(i)::value * kEvery * kCols) + kAhead, kHint);
            });
        a = plus(a, load(x));
        b = plus(b, load(x + kCols));
        c = plus(c, load(x + 2 * kCols));
        d = plus(d, load(x + 3 * kCols));
        x += 4 * kCols;
    }
    for (; left >= kCols; left -= kCols) {
        b = plus(b, load(x));
        x += kCols;
    }
    if (left > 0) c = plus(c, load(x, (Mask)((1ull << left) - 1)));
    a = plus(plus(a, b), plus(c, d));
    const int64_t lanes = kHalf ? dim / 2 : dim;
    for (int k = 0; k < kParts; k++) {
        __m512 v = a.p[k];
        if (lanes <= 8) v = _mm512_add_ps(v, _mm512_shuffle_f32x4(v, v, 0x4e));
        if (lanes <= 4) v = _mm512_add_ps(v, _mm512_shuffle_f32x4(v, v, 0xb1));
        if (lanes <= 2) v = _mm512_add_ps(v, _mm512_permute_ps(v, 0x4e));
        if (lanes <= 1) v = _mm512_add_ps(v, _mm512_permute_ps(v, 0xb1));
        a.p[k] = v;
    }
    if (kHalf && dim == 1) a.p[0] = _mm512_add_ps(a.p[0], a.p[kParts - 1]);
    if (part) keep(part, a);
    else store(out, packed(a, inv), m);
}

using Tile = void (*)(const VALUE *, int64_t, int64_t, Mask, float, VALUE *, float *);

template <int N = kTile> Tile choose(int64_t vectors, bool masked) {
    if constexpr (N == 0) return nullptr;
    else {
        if (vectors == N) return masked ? &tile<N, true> : &tile<N, false>;
        return choose<N - 1>(vectors, masked);
    }
}

using Walk = void (*)(const VALUE *, const INDEX *, int64_t, int64_t, int64_t, Mask, VALUE *);

template <int N = kTile> Walk choose_walk(int64_t vectors, bool masked) {
    if constexpr (N == 0) return nullptr;
    else {
        if (vectors == N) return masked ? &walk<N, true> : &walk<N, false>;
        return choose_walk<N - 1>(vectors, masked);
    }
}

} // namespace

extern "C" void jagged_mean(const VALUE *values, const INDEX *offsets, VALUE *out,
                            int64_t batch, int64_t total, int64_t dim) {
    (void)total;
    if (batch <= 0 || dim <= 0) return;
    const int64_t first = offsets[0], rows = (int64_t)offsets[batch] - first;
    const int64_t wide = (dim + kCols - 1) / kCols * kCols;
    const int64_t body = dim <= 128 ? 0 : (dim - 1) / 128 * 128; // columns of full tiles before the last one
    const Mask m = last_mask(dim);
    const bool flat = dim < kCols && (dim & (dim - 1)) == 0;
    const Tile full = choose(kTile, false);
    const Tile end_tile = flat ? &thin : choose((dim - body + kCols - 1) / kCols, dim % kCols != 0);

    const Walk walker = body > 0 || flat ? nullptr : choose_walk((dim + kCols - 1) / kCols, dim % kCols != 0);

    auto segment = [&](int64_t start, int64_t count, VALUE *to, float *part) {
        const VALUE *x = values + start * dim;
        const float inv = 1.0f / (float)count;
        for (int64_t c = 0; c < body; c += 128) full(x + c, count, dim, m, inv, to + c, part ? part + c : nullptr);
        end_tile(x + body, count, dim, m, inv, to + body, part ? part + body : nullptr);
    };
    const int64_t work = (rows + batch) * dim * (int64_t)sizeof(VALUE);
    constexpr int64_t kPieces = 512, kThreads = 64;
    const int64_t most = work > (int64_t)131072 ? std::min<int64_t>(omp_get_max_threads(), kThreads) : 1; // ranges
    if (most <= 1 && walker) {
        walker(values, offsets, 0, batch, dim, m, out);
        return;
    }
    if (most <= 1) {
        int64_t start = first;
        for (int64_t b = 0; b < batch; b++) {
            const int64_t stop = offsets[b + 1];
            if (stop <= start) std::memset((void *)(out + b * dim), 0, (size_t)dim * sizeof(VALUE));
            else segment(start, stop - start, out + b * dim, nullptr);
            start = stop;
        }
        return;
    }
    // Pieces of equal rows, taken by whoever is free. A segment belongs to the piece that it begins in;
    // one longer than two pieces is split at their borders and added up at the end.
    const int64_t pieces = std::max<int64_t>(most, std::min<int64_t>({work / 131072, 64 * most, kPieces}));
    const int64_t huge = 2 * (rows / pieces) + 1;
    std::unique_ptr<float[]> parts;
    alignas(64) int64_t tails[kPieces];
    auto begins = [&](int64_t k) -> int64_t { return first + rows * k / pieces; };
    auto owned = [&](int64_t k) -> int64_t { // first segment that begins in piece k
        if (k <= 0) return 0;
        if (k >= pieces) return batch;
        return std::lower_bound(offsets, offsets + batch, (INDEX)begins(k)) - offsets;
    };
    int64_t longest = 0;
    if (batch <= 8 * pieces + 1024) {
        for (int64_t b = 0; b < batch; b++) {
            const int64_t length = (int64_t)offsets[b + 1] - (int64_t)offsets[b];
            longest = length > longest ? length : longest;
        }
    } else {
        for (int64_t k = 1; k < pieces; k++) {
            const int64_t b = owned(k);
            if (b > 0) longest = std::max(longest, (int64_t)offsets[b] - (int64_t)offsets[b - 1]);
        }
    }
    const bool split = longest > huge;
    if (split) parts.reset(new float[(size_t)(2 * pieces * wide)]);
    auto piece = [&](int64_t k) {
        const int64_t low = begins(k), high = begins(k + 1);
        const int64_t b0 = owned(k), b1 = owned(k + 1);
        int64_t start = offsets[b0];
        tails[k] = -1;
        if (split && b0 > 0 && start > low && start - (int64_t)offsets[b0 - 1] > huge) {
            const int64_t stop = std::min(start, high);
            if (stop > low) segment(low, stop - low, nullptr, parts.get() + 2 * k * wide);
        }
        int64_t b = b0;
        if (walker && b0 < b1) {
            const int64_t length = (int64_t)offsets[b1] - (int64_t)offsets[b1 - 1];
            b = length > huge && offsets[b1] > high ? b1 - 1 : b1;
            walker(values, offsets, b0, b, dim, m, out);
            start = offsets[b];
        }
        for (; b < b1; b++) {
            const int64_t stop = offsets[b + 1];
            VALUE *to = out + b * dim;
            if (stop <= start) std::memset((void *)to, 0, (size_t)dim * sizeof(VALUE));
            else if (stop <= high || stop - start <= huge) segment(start, stop - start, to, nullptr);
            else {
                segment(start, high - start, nullptr, parts.get() + (2 * k + 1) * wide);
                tails[k] = b;
            }
            start = stop;
        }
    };
    // Each thread goes through its own range of pieces in order, then helps with the others' ranges.
    alignas(64) int64_t next[8 * kThreads];
    for (int64_t t = 0; t < most; t++) next[8 * t] = pieces * t / most;
    int64_t done = 0;
#pragma omp parallel
    {
        const int64_t count = omp_get_num_threads(), id = omp_get_thread_num();
        for (int64_t i = 0; i < most; i++) {
            const int64_t t = (id + i) % most, end = pieces * (t + 1) / most;
            int64_t *const counter = next + 8 * t;
            for (;;) {
                int64_t k;
#pragma omp atomic capture
                k = (*counter)++;
                if (k >= end) break;
                piece(k);
            }
        }
        // Waiting threads sleep, and being woken costs more than most calls: the calling thread watches the
        // others end and comes to the barrier last.
        if (id != 0) {
#pragma omp atomic update seq_cst
            done++;
        } else {
            int64_t ready = 0;
            for (int i = 0; i < 4000 && ready < count - 1; i++) {
                _mm_pause();
#pragma omp atomic read seq_cst
                ready = done;
            }
            for (int i = 0; i < 16; i++) _mm_pause();
        }
    }
    if (!split) return;
    for (int64_t k = 0; k + 1 < pieces; k++) {
        const int64_t b = tails[k];
        if (b < 0) continue;
        const int64_t start = offsets[b], stop = offsets[b + 1];
        float *sum = parts.get() + (2 * k + 1) * wide;
        for (int64_t j = k + 1; j < pieces && begins(j) < stop; j++) {
            if (begins(j + 1) == begins(j)) continue;
            const float *more = parts.get() + 2 * j * wide;
            for (int64_t c = 0; c < wide; c += kCols) keep(sum + c, plus(kept(sum + c), kept(more + c)));
        }
        const float inv = 1.0f / (float)(stop - start);
        VALUE *to = out + b * dim;
        for (int64_t c = 0; c < wide; c += kCols) {
            if (c + kCols <= dim) store(to + c, packed(kept(sum + c), inv));
            else store(to + c, packed(kept(sum + c), inv), m);
        }
    }
}
