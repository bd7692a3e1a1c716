//! Powers of a fixed base by a comb (Lim and Lee, CRYPTO 1994) with 6 rows and 8 tables: an
//! exponent of 3072 bits takes 63 squarings and 512 products. Each look-up reads its whole table,
//! so that the cache does not show the index.

use crypto_bigint::U3072;

use super::montgomery::{Montgomery, Residue, look_up};

/// Number of rows, which is the number of bits per look-up.
const ROWS: u32 = 6;
/// Number of tables.
const TABLES: u32 = 8;
/// Bits of a row, and of a block of a row.
const ROW_BITS: u32 = 512;
const BLOCK_BITS: u32 = ROW_BITS / TABLES;

/// The tables of a base: entry i of table j is the product of base^(2^(512 row + 64 j)) over the
/// rows whose bit is set in i.
pub struct PowerComb {
    tables: Vec<Vec<Residue>>,
}

impl PowerComb {
    /// Computes the tables in about the time of two powers.
    pub fn new(field: &Montgomery, base: &U3072) -> Self {
        // The powers base^(2^(64 k)) for all k.
        let mut power = field.enter_form(base);
        let mut of_block = Vec::new();
        for _ in 0..ROWS * TABLES {
            of_block.push(power);
            power = (0..BLOCK_BITS).fold(power, |power, _| field.square(&power));
        }
        let row = |table: u32, row: u32| of_block[(row * TABLES + table) as usize];
        let entry = |table: u32, index: u32| {
            let rows = (0..ROWS).filter(|row| index >> row & 1 == 1);
            rows.fold(field.one(), |product, at| field.multiply(&product, &row(table, at)))
        };
        let table = |at: u32| (0..1 << ROWS).map(|n| entry(at, n)).collect();
        Self { tables: (0..TABLES).map(table).collect() }
    }

    /// Computes the base to the power of an exponent.
    pub fn power(&self, field: &Montgomery, exponent: &U3072) -> Residue {
        let mut result = field.one();
        for bit in (0..BLOCK_BITS).rev() {
            result = field.square(&result);
            for (table, entries) in (0_u32..).zip(&self.tables) {
                let index = (0..ROWS).fold(0, |index, row| {
                    let at = row * ROW_BITS + table * BLOCK_BITS + bit;
                    index | (u64::from(exponent.bit(at).to_u8()) << row)
                });
                result = field.multiply(&result, &look_up(entries, index));
            }
        }
        result
    }
}
