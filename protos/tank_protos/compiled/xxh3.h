/* XXH3-64 with seed 0 and the default secret, for the compiled kernel, after the specification of the xxHash project
 * (doc/xxhash_spec.md). Input up to 240 bytes, as most messages have, is mixed by products of 64 bits; longer input in
 * stripes of 64 bytes, two lanes at a time where the processor has SSE2, as each x86-64 does. */
#ifndef TANK_XXH3_H
#define TANK_XXH3_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#define XXH3_P32_1 0x9E3779B1u
#define XXH3_P32_2 0x85EBCA77u
#define XXH3_P32_3 0xC2B2AE3Du
#define XXH3_P64_1 0x9E3779B185EBCA87u
#define XXH3_P64_2 0xC2B2AE3D27D4EB4Fu
#define XXH3_P64_3 0x165667B19E3779F9u
#define XXH3_P64_4 0x85EBCA77C2B2AE63u
#define XXH3_P64_5 0x27D4EB2F165667C5u
#define XXH3_MIX_1 0x165667919E3779F9u
#define XXH3_MIX_2 0x9FB21C651E98DF25u

enum { XXH3_STRIPE = 64, XXH3_SECRET_BYTES = 192, XXH3_STRIPES = (XXH3_SECRET_BYTES - XXH3_STRIPE) / 8 };

static const uint8_t xxh3_secret[XXH3_SECRET_BYTES] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

static inline uint64_t xxh3_u64(const uint8_t *p)
{
    uint64_t value;
    memcpy(&value, p, 8);
    return value;
}

static inline uint64_t xxh3_u32(const uint8_t *p)
{
    uint32_t value;
    memcpy(&value, p, 4);
    return value;
}

/* The halves of the product of 128 bits, one XOR the other. */
static inline uint64_t xxh3_folded(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t xxh3_rotated(uint64_t h, int bits)
{
    return h << bits | h >> (64 - bits);
}

static inline uint64_t xxh3_end(uint64_t h)
{
    h ^= h >> 37;
    h *= XXH3_MIX_1;
    return h ^ h >> 32;
}

/* The end of XXH64, which the shortest inputs have. */
static inline uint64_t xxh3_end_64(uint64_t h)
{
    h ^= h >> 33;
    h *= XXH3_P64_2;
    h ^= h >> 29;
    h *= XXH3_P64_3;
    return h ^ h >> 32;
}

/* Of 16 bytes with 16 of the secret. */
static inline uint64_t xxh3_mixed(const uint8_t *p, const uint8_t *secret)
{
    return xxh3_folded(xxh3_u64(p) ^ xxh3_u64(secret), xxh3_u64(p + 8) ^ xxh3_u64(secret + 8));
}

static inline uint64_t xxh3_to_16(const uint8_t *p, size_t n)
{
    const uint8_t *secret = xxh3_secret;
    if (n > 8) {
        uint64_t low = xxh3_u64(p) ^ xxh3_u64(secret + 24) ^ xxh3_u64(secret + 32);
        uint64_t high = xxh3_u64(p + n - 8) ^ xxh3_u64(secret + 40) ^ xxh3_u64(secret + 48);
        return xxh3_end(n + __builtin_bswap64(low) + high + xxh3_folded(low, high));
    }
    if (n >= 4) {
        uint64_t h = xxh3_u32(p + n - 4) + (xxh3_u32(p) << 32);
        h ^= xxh3_u64(secret + 8) ^ xxh3_u64(secret + 16);
        h ^= xxh3_rotated(h, 49) ^ xxh3_rotated(h, 24);
        h *= XXH3_MIX_2;
        h ^= (h >> 35) + n;
        h *= XXH3_MIX_2;
        return h ^ h >> 28;
    }
    if (n) {
        uint64_t h = (uint64_t)p[0] << 16 | (uint64_t)p[n >> 1] << 24 | p[n - 1] | (uint64_t)n << 8;
        return xxh3_end_64(h ^ xxh3_u32(secret) ^ xxh3_u32(secret + 4));
    }
    return xxh3_end_64(xxh3_u64(secret + 56) ^ xxh3_u64(secret + 64));
}

static inline uint64_t xxh3_to_128(const uint8_t *p, size_t n)
{
    const uint8_t *secret = xxh3_secret;
    uint64_t h = n * XXH3_P64_1;
    /* Pairs of 16 bytes from both ends, as many as there are. */
    for (size_t i = (n - 1) / 32 + 1; i-- > 0;) {
        h += xxh3_mixed(p + 16 * i, secret + 32 * i);
        h += xxh3_mixed(p + n - 16 * (i + 1), secret + 32 * i + 16);
    }
    return xxh3_end(h);
}

static inline uint64_t xxh3_to_240(const uint8_t *p, size_t n)
{
    const uint8_t *secret = xxh3_secret;
    uint64_t h = n * XXH3_P64_1;
    for (size_t i = 0; i < 8; i++) h += xxh3_mixed(p + 16 * i, secret + 16 * i);
    h = xxh3_end(h);
    for (size_t i = 8; i < n / 16; i++) h += xxh3_mixed(p + 16 * i, secret + 16 * (i - 8) + 3);
    h += xxh3_mixed(p + n - 16, secret + 136 - 17);
    return xxh3_end(h);
}

#if defined(__x86_64__)

static inline void xxh3_take(__m128i *lanes, const uint8_t *p, const uint8_t *secret)
{
    for (int i = 0; i < 4; i++) {
        __m128i data = _mm_loadu_si128((const __m128i *)(p + 16 * i));
        __m128i keyed = _mm_xor_si128(data, _mm_loadu_si128((const __m128i *)(secret + 16 * i)));
        __m128i product = _mm_mul_epu32(keyed, _mm_srli_epi64(keyed, 32));
        /* Each half of the data goes into the other lane. */
        lanes[i] = _mm_add_epi64(lanes[i], _mm_shuffle_epi32(data, _MM_SHUFFLE(1, 0, 3, 2)));
        lanes[i] = _mm_add_epi64(lanes[i], product);
    }
}

static inline void xxh3_scramble(__m128i *lanes, const uint8_t *secret)
{
    const __m128i prime = _mm_set1_epi32((int)XXH3_P32_1);
    for (int i = 0; i < 4; i++) {
        __m128i h = _mm_xor_si128(lanes[i], _mm_srli_epi64(lanes[i], 47));
        h = _mm_xor_si128(h, _mm_loadu_si128((const __m128i *)(secret + 16 * i)));
        __m128i high = _mm_slli_epi64(_mm_mul_epu32(_mm_srli_epi64(h, 32), prime), 32);
        lanes[i] = _mm_add_epi64(_mm_mul_epu32(h, prime), high);
    }
}

typedef __m128i xxh3_lanes[4];

#else

static inline void xxh3_take(uint64_t *lanes, const uint8_t *p, const uint8_t *secret)
{
    for (int i = 0; i < 8; i++) {
        uint64_t data = xxh3_u64(p + 8 * i), keyed = data ^ xxh3_u64(secret + 8 * i);
        lanes[i ^ 1] += data;
        lanes[i] += (keyed & 0xFFFFFFFFu) * (keyed >> 32);
    }
}

static inline void xxh3_scramble(uint64_t *lanes, const uint8_t *secret)
{
    for (int i = 0; i < 8; i++)
        lanes[i] = (lanes[i] ^ lanes[i] >> 47 ^ xxh3_u64(secret + 8 * i)) * XXH3_P32_1;
}

typedef uint64_t xxh3_lanes[8];

#endif

static uint64_t xxh3_long(const uint8_t *p, size_t n)
{
    const uint8_t *secret = xxh3_secret, *last = p + n - XXH3_STRIPE;
    uint64_t lane[8] = {
        XXH3_P32_3, XXH3_P64_1, XXH3_P64_2, XXH3_P64_3, XXH3_P64_4, XXH3_P32_2, XXH3_P64_5, XXH3_P32_1,
    };
    uint64_t h = n * XXH3_P64_1;
    xxh3_lanes lanes;
    memcpy(lanes, lane, sizeof lane);
    /* All stripes but those that hold the last byte; that one is taken with the end of the secret. */
    for (size_t left = (n - 1) / XXH3_STRIPE; left > 0;) {
        size_t stripes = left < XXH3_STRIPES ? left : XXH3_STRIPES;
        for (size_t i = 0; i < stripes; i++) xxh3_take(lanes, p + XXH3_STRIPE * i, secret + 8 * i);
        if (stripes == XXH3_STRIPES) xxh3_scramble(lanes, secret + XXH3_SECRET_BYTES - XXH3_STRIPE);
        p += XXH3_STRIPE * stripes;
        left -= stripes;
    }
    xxh3_take(lanes, last, secret + XXH3_SECRET_BYTES - XXH3_STRIPE - 7);
    memcpy(lane, lanes, sizeof lane);
    for (int i = 0; i < 4; i++)
        h += xxh3_folded(
            lane[2 * i] ^ xxh3_u64(secret + 11 + 16 * i), lane[2 * i + 1] ^ xxh3_u64(secret + 19 + 16 * i));
    return xxh3_end(h);
}

static inline uint64_t xxh3_64(const uint8_t *p, size_t n)
{
    if (n <= 16) return xxh3_to_16(p, n);
    if (n <= 128) return xxh3_to_128(p, n);
    if (n <= 240) return xxh3_to_240(p, n);
    return xxh3_long(p, n);
}

#endif
