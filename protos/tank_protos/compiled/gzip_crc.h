/* CRC-32 as gzip has it, for the compiled kernel: by tables, eight bytes at a time. Clients of the first eras of Iggy's
 * protocol want it of each message. */
#ifndef TANK_GZIP_CRC_H
#define TANK_GZIP_CRC_H

#include <stddef.h>
#include <stdint.h>

/* By byte and distance to the end of a word: the CRC of that byte. */
static uint32_t gzip_crc_tables[8][256];

/* Runs when the module that includes this is loaded. */
__attribute__((constructor)) static void gzip_crc_make_tables(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
        gzip_crc_tables[0][b] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int b = 0; b < 256; b++)
            gzip_crc_tables[k][b] = gzip_crc_tables[k - 1][b] >> 8 ^ gzip_crc_tables[0][gzip_crc_tables[k - 1][b] & 255];
}

static inline uint32_t gzip_crc(const uint8_t *p, size_t n)
{
    uint32_t (*t)[256] = gzip_crc_tables;
    uint32_t crc = ~0u;
    for (; n >= 8; p += 8, n -= 8) {
        crc ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        crc = t[7][crc & 255] ^ t[6][crc >> 8 & 255] ^ t[5][crc >> 16 & 255] ^ t[4][crc >> 24] ^ t[3][p[4]]
            ^ t[2][p[5]] ^ t[1][p[6]] ^ t[0][p[7]];
    }
    for (; n; p++, n--) crc = crc >> 8 ^ t[0][(crc ^ *p) & 255];
    return ~crc;
}

#endif
