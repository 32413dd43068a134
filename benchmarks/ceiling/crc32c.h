/* CRC-32C with the SSE4.2 instruction. The instruction takes three cycles but one can start each cycle, so
 * long inputs are cut into three lanes that run side by side; a lane's CRC is carried over the bytes after it
 * by a table made at start. */
#ifndef CRC32C_H
#define CRC32C_H

#include <nmmintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { CRC_LANE = 1024 }; /* bytes; a multiple of 8 */

static uint32_t crc_shift_1[4][256],
    crc_shift_2[4][256]; /* a CRC after one lane of zeros, after two, by its four bytes */

static inline void crc32c_init(void)
{
    for (int k = 0; k < 4; k++)
        for (uint32_t b = 0; b < 256; b++) {
            uint64_t crc = b << 8 * k;
            for (int i = 0; i < CRC_LANE; i += 8) crc = _mm_crc32_u64(crc, 0);
            crc_shift_1[k][b] = (uint32_t)crc;
            for (int i = 0; i < CRC_LANE; i += 8) crc = _mm_crc32_u64(crc, 0);
            crc_shift_2[k][b] = (uint32_t)crc;
        }
}

static inline uint32_t crc_shift(uint32_t table[4][256], uint32_t crc)
{ return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^ table[3][crc >> 24]; }

static inline uint64_t crc_word(uint64_t crc, const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, 8);
    return _mm_crc32_u64(crc, word);
}

/* Continues `crc` (0 to begin with) over `n` more bytes. */
static inline uint32_t crc32c(uint32_t crc, const void *data, size_t n)
{
    const uint8_t *p = data;
    uint64_t a = ~crc;
    for (; n >= 3 * CRC_LANE; p += 3 * CRC_LANE, n -= 3 * CRC_LANE) {
        uint64_t b = 0, c = 0;
        for (size_t i = 0; i < CRC_LANE; i += 8) {
            a = crc_word(a, p + i);
            b = crc_word(b, p + i + CRC_LANE);
            c = crc_word(c, p + i + 2 * CRC_LANE);
        }
        a = crc_shift(crc_shift_2, (uint32_t)a) ^ crc_shift(crc_shift_1, (uint32_t)b) ^ c;
    }
    for (; n >= 8; p += 8, n -= 8) a = crc_word(a, p);
    for (; n; p++, n--) a = _mm_crc32_u8((uint32_t)a, *p);
    return ~(uint32_t)a;
}

#endif
