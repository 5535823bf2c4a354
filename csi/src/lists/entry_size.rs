//! The sizes of the entries of lists in memory. They are much larger than their messages: an empty entry has 2 bytes in a message.

use std::collections::HashMap;

use crate::v1::{Topology, Volume, list_snapshots_response, list_volumes_response};

/// The size of an entry.
pub(super) trait EntrySize {
    /// The bytes that the entry needs in memory, without unused capacities.
    fn in_memory(&self) -> usize;
}

/// The size of an entry of a map, besides its texts. Up to a half of a map is free.
const MAP_ENTRY: usize = 2 * (2 * size_of::<String>() + 1);

impl EntrySize for list_volumes_response::Entry {
    fn in_memory(&self) -> usize {
        let nodes = self.status.iter().flat_map(|status| &status.published_node_ids);
        let condition = self.status.iter().filter_map(|status| status.volume_condition.as_ref());
        size_of::<Self>()
            + self.volume.as_ref().map_or(0, volume)
            + nodes.map(|node| size_of::<String>() + node.len()).sum::<usize>()
            + condition.map(|condition| condition.message.len()).sum::<usize>()
    }
}

impl EntrySize for list_snapshots_response::Entry {
    fn in_memory(&self) -> usize {
        let texts = self.snapshot.as_ref().map_or(0, |snapshot| {
            snapshot.snapshot_id.len() + snapshot.source_volume_id.len() + snapshot.group_snapshot_id.len()
        });
        size_of::<Self>() + texts
    }
}

/// The memory of a volume beyond the struct.
fn volume(volume: &Volume) -> usize {
    let topologies = volume.accessible_topology.iter();
    let topologies = topologies.map(|topology| size_of::<Topology>() + map(&topology.segments));
    // The source has one text, and its message is about as long.
    let source = volume.content_source.as_ref().map_or(0, prost::Message::encoded_len);
    volume.volume_id.len() + map(&volume.volume_context) + source + topologies.sum::<usize>()
}

fn map(map: &HashMap<String, String>) -> usize {
    map.iter().map(|(key, value)| MAP_ENTRY + key.len() + value.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::list_volumes_response::{Entry, VolumeStatus};

    #[test]
    fn every_part_of_an_entry_counts() {
        let size = |change: fn(&mut Volume, &mut VolumeStatus)| {
            let (mut volume, mut status) = (Volume::default(), VolumeStatus::default());
            change(&mut volume, &mut status);
            Entry { volume: Some(volume), status: Some(status) }.in_memory()
        };
        let empty = size(|_, _| {});
        assert_eq!(empty, size_of::<Entry>());
        let text = || "x".repeat(100);
        let map = |count: usize| (0..count).map(|n| (n.to_string(), "x".repeat(100))).collect();
        let rows: [(&str, usize, usize); 6] = [
            ("1 a handle", size(|volume, _| volume.volume_id = "x".repeat(100)), 100),
            ("2 nodes", size(|_, status| status.published_node_ids = vec![String::new(); 9]), 9 * 24),
            (
                "3 a context",
                size(|volume, _| volume.volume_context = [(String::new(), String::new())].into()),
                48,
            ),
            (
                "4 topologies",
                size(|volume, _| volume.accessible_topology = vec![Topology::default(); 9]),
                9 * 48,
            ),
            (
                "5 a condition",
                size(|_, status| {
                    status.volume_condition =
                        Some(crate::v1::VolumeCondition { abnormal: true, message: "x".repeat(100) });
                }),
                100,
            ),
            (
                "6 a segment",
                Entry {
                    volume: Some(Volume {
                        accessible_topology: vec![Topology { segments: map(2) }],
                        ..Default::default()
                    }),
                    status: None,
                }
                .in_memory(),
                2 * text().len(),
            ),
        ];
        for (case, found, least) in rows {
            assert!(found >= empty + least, "{case}: {found}, {empty}");
        }
    }
}
