/* CRC-32C (Castagnoli), for the compiled kernel: with the processor's own instruction where it has one, which is found
 * out when the module is loaded, else by tables.
 *
 * The instruction takes three cycles but one can start each cycle. So long inputs are cut into three lanes that run side
 * by side; a lane's CRC is carried over the bytes behind it by a table, for CRCs are linear: the CRC of two pieces is the
 * first one's, carried over the second one's length in zeros, XOR the second one's. */
#ifndef TANK_CRC32C_H
#define TANK_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define CRC32C_TARGET __attribute__((target("sse4.2")))
#define CRC32C_WORD(crc, word) _mm_crc32_u64((crc), (word)) /* 64 bits wide, the upper half 0 */
#define CRC32C_BYTE(crc, byte) _mm_crc32_u8((crc), (byte))
#elif defined(__aarch64__) && defined(__linux__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define CRC32C_TARGET
#define CRC32C_WORD(crc, word) __crc32cd((uint32_t)(crc), (word))
#define CRC32C_BYTE(crc, byte) __crc32cb((crc), (byte))
#endif

/* Of lanes, in bytes; multiples of 8. The long one for 3 KiB and more, the short one for what is left of that. */
enum { CRC32C_LONG = 1024, CRC32C_SHORT = 128 };

/* By byte and distance to the end of a word: the CRC of that byte. */
static uint32_t crc32c_tables[8][256];

static uint32_t crc32c_by_tables(uint32_t crc, const uint8_t *p, size_t n)
{
    uint32_t (*t)[256] = crc32c_tables;
    crc = ~crc;
    for (; n >= 8; p += 8, n -= 8) {
        crc ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        crc = t[7][crc & 255] ^ t[6][crc >> 8 & 255] ^ t[5][crc >> 16 & 255] ^ t[4][crc >> 24] ^ t[3][p[4]]
            ^ t[2][p[5]] ^ t[1][p[6]] ^ t[0][p[7]];
    }
    for (; n; p++, n--) crc = crc >> 8 ^ t[0][(crc ^ *p) & 255];
    return ~crc;
}

#ifdef CRC32C_TARGET

/* A CRC after one lane of zeros and after two, by its four bytes. */
typedef uint32_t crc32c_shift_table[2][4][256];
static crc32c_shift_table crc32c_long, crc32c_short;

CRC32C_TARGET static void crc32c_make_shift(crc32c_shift_table table, size_t lane)
{
    for (int k = 0; k < 4; k++)
        for (uint32_t b = 0; b < 256; b++) {
            uint32_t crc = b << 8 * k;
            for (int lanes = 0; lanes < 2; lanes++) {
                for (size_t i = 0; i < lane; i += 8) crc = (uint32_t)CRC32C_WORD(crc, 0);
                table[lanes][k][b] = crc;
            }
        }
}

static inline uint32_t crc32c_shift(uint32_t table[4][256], uint32_t crc)
{
    return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^ table[3][crc >> 24];
}

/* The CRC stays as wide as the instruction has it: cutting it to 32 bits in each step takes half as long again. */
CRC32C_TARGET static inline uint64_t crc32c_word(uint64_t crc, const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, 8);
    return CRC32C_WORD(crc, word);
}

/* In line, so that the lane is a constant. */
CRC32C_TARGET __attribute__((always_inline)) static inline uint64_t crc32c_lanes(uint64_t a, const uint8_t *p,
                                                                                 size_t lane, crc32c_shift_table shift)
{
    uint64_t b = 0, c = 0;
    for (size_t i = 0; i < lane; i += 8) {
        a = crc32c_word(a, p + i);
        b = crc32c_word(b, p + i + lane);
        c = crc32c_word(c, p + i + 2 * lane);
    }
    return crc32c_shift(shift[1], (uint32_t)a) ^ crc32c_shift(shift[0], (uint32_t)b) ^ (uint32_t)c;
}

CRC32C_TARGET static uint32_t crc32c_by_instruction(uint32_t crc, const uint8_t *p, size_t n)
{
    uint64_t a = ~crc;
    for (; n >= 3 * CRC32C_LONG; p += 3 * CRC32C_LONG, n -= 3 * CRC32C_LONG)
        a = crc32c_lanes(a, p, CRC32C_LONG, crc32c_long);
    for (; n >= 3 * CRC32C_SHORT; p += 3 * CRC32C_SHORT, n -= 3 * CRC32C_SHORT)
        a = crc32c_lanes(a, p, CRC32C_SHORT, crc32c_short);
    for (; n >= 8; p += 8, n -= 8) a = crc32c_word(a, p);
    for (; n; p++, n--) a = CRC32C_BYTE((uint32_t)a, *p);
    return ~(uint32_t)a;
}

#endif

/* By n: x to the power of 8 * 2^n, modulo the polynomial; bit 31 stands for x to the power of 0. */
static uint32_t crc32c_powers[32];

/* The product of two such polynomials. */
static uint32_t crc32c_times(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (; a; a <<= 1) {
        product ^= a >> 31 ? b : 0;
        b = b >> 1 ^ (b & 1 ? 0x82F63B78u : 0);
    }
    return product;
}

/* The CRC of two pieces, of which the second one has `n` bytes, less than 2^32. Some 500 cycles, whatever n is. */
static uint32_t crc32c_joined(uint32_t first, uint32_t second, size_t n)
{
    for (int bit = 0; n && bit < 32; bit++, n >>= 1)
        if (n & 1) first = crc32c_times(crc32c_powers[bit], first);
    return first ^ second;
}

static uint32_t (*crc32c_chosen)(uint32_t, const uint8_t *, size_t) = crc32c_by_tables;

/* Runs when the module that includes this is loaded. */
__attribute__((constructor)) static void crc32c_choose(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
        crc32c_tables[0][b] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int b = 0; b < 256; b++)
            crc32c_tables[k][b] = crc32c_tables[k - 1][b] >> 8 ^ crc32c_tables[0][crc32c_tables[k - 1][b] & 255];
    crc32c_powers[0] = 1u << 23;
    for (int n = 1; n < 32; n++) crc32c_powers[n] = crc32c_times(crc32c_powers[n - 1], crc32c_powers[n - 1]);
#ifdef CRC32C_TARGET
#ifdef __x86_64__
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("sse4.2")) return;
#endif
    crc32c_make_shift(crc32c_long, CRC32C_LONG);
    crc32c_make_shift(crc32c_short, CRC32C_SHORT);
    crc32c_chosen = crc32c_by_instruction;
#endif
}

/* Continues `crc` (0 to begin with) over `n` more bytes. */
static inline uint32_t crc32c(uint32_t crc, const void *data, size_t n)
{
    return crc32c_chosen(crc, (const uint8_t *)data, n);
}

static inline int crc32c_has_instruction(void)
{
    return crc32c_chosen != crc32c_by_tables;
}

#endif
