use kith_cache::remote::Codec;
use kith_presence::Distribution;
use prost::Message;

/// Version of the format; nodes with another one treat such bytes as a miss.
const SCHEMA: u16 = 1;

/// The codec of distributions in the shared tier.
#[derive(Clone, Copy, Debug)]
pub(super) struct DistributionCodec;

/// A distribution as bytes. Numbers of fields are never reused; a change of meaning raises [`SCHEMA`].
#[derive(Clone, PartialEq, Message)]
struct Packed {
    #[prost(int64, tag = "1")]
    version: i64,
    #[prost(uint32, tag = "2")]
    total: u32,
    #[prost(string, repeated, tag = "3")]
    gateways: Vec<String>,
    #[prost(uint32, repeated, tag = "4")]
    counts: Vec<u32>,
    /// Written last, so that truncated bytes lack it.
    #[prost(bool, tag = "15")]
    whole: bool,
}

impl Codec<Distribution> for DistributionCodec {
    fn schema(&self) -> u16 {
        SCHEMA
    }

    fn encode(&self, distribution: &Distribution) -> Vec<u8> {
        let (gateways, counts) =
            distribution.gateways.iter().map(|(gateway, count)| (gateway.to_string(), *count)).unzip();
        let Distribution { version, total, .. } = *distribution;
        Packed { version, total, gateways, counts, whole: true }.encode_to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<Distribution> {
        let packed = Packed::decode(bytes).ok().filter(|packed| packed.whole)?;
        let pairs = packed.gateways.iter().zip(&packed.counts);
        let gateways = pairs.map(|(gateway, count)| Some((gateway.parse().ok()?, *count)));
        let gateways = gateways.collect::<Option<Vec<_>>>()?;
        let whole = packed.gateways.len() == packed.counts.len();
        whole.then_some(Distribution { version: packed.version, total: packed.total, gateways })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_are_read_back_unless_cut_off() {
        let gateways = vec![("a".parse().unwrap(), 2), ("b".parse().unwrap(), 7)];
        for distribution in [Distribution { version: 9, total: 8, gateways }, Distribution::default()] {
            let bytes = DistributionCodec.encode(&distribution);
            assert_eq!(DistributionCodec.decode(&bytes), Some(distribution));
            for cut in 0..bytes.len() {
                assert_eq!(DistributionCodec.decode(&bytes[..cut]), None, "{cut}");
            }
        }
    }
}
