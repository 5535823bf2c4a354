//! The objects that are written: bodies made once, with gaps for the name.
//!
//! A volume of ordinary size: with the labels and annotations that provisioners leave it is about 700 bytes
//! as sent and about 1.4 kB as an API server keeps it, with managedFields.

/// The path of all volumes.
pub(crate) const VOLUMES: &str = "/api/v1/persistentvolumes";
/// The path of all namespaces.
pub(crate) const NAMESPACES: &str = "/api/v1/namespaces";
/// The label of everything that bench makes; its value is the run.
pub(crate) const LABEL: &str = "orlop-bench";
/// The class of volumes and claims; nothing provisions it but where a row has a driver.
pub(crate) const CLASS: &str = "orlop-bench";

/// A text with gaps that take a name.
#[derive(Clone, Debug)]
pub(crate) struct Template(Vec<String>);

impl Template {
    fn new(text: &str) -> Self {
        Template(text.split("@NAME@").map(str::to_owned).collect())
    }

    /// Writes the text with the name in its gaps; what was in `out` is gone.
    pub(crate) fn fill(&self, out: &mut Vec<u8>, name: &str) {
        out.clear();
        for (index, piece) in self.0.iter().enumerate() {
            if index > 0 {
                out.extend_from_slice(name.as_bytes());
            }
            out.extend_from_slice(piece.as_bytes());
        }
    }
}

/// What a volume says of its claim.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Claim<'a> {
    /// Nothing: whoever comes may have it.
    None,
    /// It belonged to a claim of this namespace that is gone.
    Gone(&'a str),
}

/// Volumes of a run.
pub(crate) fn volume(run: &str, claim: Claim<'_>) -> Template {
    let claim = match claim {
        Claim::None => String::new(),
        Claim::Gone(namespace) => format!(
            r#","claimRef":{{"apiVersion":"v1","kind":"PersistentVolumeClaim","namespace":"{namespace}","name":"gone-@NAME@","uid":"5f0c1ab2-7c1e-4d0b-9a55-3f1f6a2b9c10"}}"#
        ),
    };
    Template::new(&format!(
        r#"{{"apiVersion":"v1","kind":"PersistentVolume","metadata":{{"name":"@NAME@","labels":{{"{LABEL}":"{run}","tier":"gold","rack":"r17"}},"annotations":{{"example.com/owner":"storage-team","example.com/description":"a volume of ordinary size, with the annotations that provisioners leave"}}}},"spec":{{"capacity":{{"storage":"5Gi"}},"accessModes":["ReadWriteOnce","ReadOnlyMany"],"persistentVolumeReclaimPolicy":"Retain","storageClassName":"{CLASS}","mountOptions":["hard","nfsvers=4.1"],"nfs":{{"server":"nfs.example.com","path":"/exports/@NAME@"}}{claim}}}}}"#
    ))
}

/// Claims of a run, which the volumes above fit.
pub(crate) fn claim(run: &str) -> Template {
    claim_of(run, "3Gi")
}

/// Claims of a run that ask for so much.
pub(crate) fn claim_of(run: &str, size: &str) -> Template {
    Template::new(&format!(
        r#"{{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{{"name":"@NAME@","labels":{{"{LABEL}":"{run}"}}}},"spec":{{"accessModes":["ReadWriteOnce"],"storageClassName":"{CLASS}","resources":{{"requests":{{"storage":"{size}"}}}}}}}}"#
    ))
}

/// A namespace of a run.
pub(crate) fn namespace(run: &str) -> Template {
    Template::new(&format!(
        r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"@NAME@","labels":{{"{LABEL}":"{run}"}}}}}}"#
    ))
}

/// The path of the claims of a namespace.
pub(crate) fn claims(namespace: &str) -> String {
    format!("{NAMESPACES}/{namespace}/persistentvolumeclaims")
}

/// What an object of a run is called. Always as long, so that every body is.
pub(crate) fn name(prefix: &str, number: usize) -> String {
    format!("{prefix}{number:07}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_json_with_the_name_in_all_gaps() {
        for (case, template, places) in [
            ("volume", volume("r1", Claim::None), 2),
            ("released volume", volume("r1", Claim::Gone("ns")), 3),
            ("claim", claim("r1"), 1),
            ("namespace", namespace("r1"), 1),
        ] {
            let mut body = b"what was here".to_vec();
            template.fill(&mut body, "the-name");
            let text = String::from_utf8(body).expect("UTF-8");
            let json: serde_json::Value = serde_json::from_str(&text).expect(case);
            assert_eq!(json["metadata"]["name"], "the-name", "{case}");
            assert_eq!(json["metadata"]["labels"][LABEL], "r1", "{case}");
            assert_eq!(text.matches("the-name").count(), places, "{case}");
        }
    }

    #[test]
    fn names_are_as_long_and_as_the_alphabet_has_them() {
        assert_eq!(name("b-", 7), "b-0000007");
        assert!(name("b-", 9) < name("b-", 10));
    }
}
