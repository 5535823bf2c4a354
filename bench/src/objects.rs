//! The objects that rows write: bodies rendered once, with placeholders for the name.
//!
//! A volume has the usual size: with the labels and annotations of a provisioner, about 700 bytes as sent and
//! about 1.4 kB as stored by an API server, with managedFields.

/// The path of all volumes.
pub(crate) const VOLUMES: &str = "/api/v1/persistentvolumes";
/// The path of all namespaces.
pub(crate) const NAMESPACES: &str = "/api/v1/namespaces";
/// The label of all objects that bench creates; its value is the run.
pub(crate) const LABEL: &str = "orlop-bench";
/// The StorageClass of volumes and claims. Only rows with a CSI driver provision volumes for it.
pub(crate) const CLASS: &str = "orlop-bench";

/// A text with placeholders for a name.
#[derive(Clone, Debug)]
pub(crate) struct Template(Vec<String>);

impl Template {
    fn new(text: &str) -> Self {
        Template(text.split("@NAME@").map(str::to_owned).collect())
    }

    /// Replaces the content of `out` with the text, with `name` in its placeholders.
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

/// The `claimRef` of a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Claim<'a> {
    /// No `claimRef`: any claim may bind the volume.
    None,
    /// The volume was bound to a deleted claim of this namespace.
    Gone(&'a str),
}

/// Template of the volumes of a run.
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

/// Template of the claims of a run, which match the volumes of [`volume`].
pub(crate) fn claim(run: &str) -> Template {
    claim_of(run, "3Gi")
}

/// Template of the claims of a run that request `size`.
pub(crate) fn claim_of(run: &str, size: &str) -> Template {
    Template::new(&format!(
        r#"{{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{{"name":"@NAME@","labels":{{"{LABEL}":"{run}"}}}},"spec":{{"accessModes":["ReadWriteOnce"],"storageClassName":"{CLASS}","resources":{{"requests":{{"storage":"{size}"}}}}}}}}"#
    ))
}

/// Template of the namespaces of a run.
pub(crate) fn namespace(run: &str) -> Template {
    Template::new(&format!(
        r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"@NAME@","labels":{{"{LABEL}":"{run}"}}}}}}"#
    ))
}

/// The path of the claims of a namespace.
pub(crate) fn claims(namespace: &str) -> String {
    format!("{NAMESPACES}/{namespace}/persistentvolumeclaims")
}

/// The name of an object of a run. All names have the same length, so that all bodies do.
pub(crate) fn name(prefix: &str, number: usize) -> String {
    format!("{prefix}{number:07}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_render_json_with_the_name_in_all_placeholders() {
        for (case, template, places) in [
            ("volume", volume("r1", Claim::None), 2),
            ("released volume", volume("r1", Claim::Gone("ns")), 3),
            ("claim", claim("r1"), 1),
            ("namespace", namespace("r1"), 1),
        ] {
            let mut body = b"previous content".to_vec();
            template.fill(&mut body, "the-name");
            let text = String::from_utf8(body).expect("UTF-8");
            let json: serde_json::Value = serde_json::from_str(&text).expect(case);
            assert_eq!(json["metadata"]["name"], "the-name", "{case}");
            assert_eq!(json["metadata"]["labels"][LABEL], "r1", "{case}");
            assert_eq!(text.matches("the-name").count(), places, "{case}");
        }
    }

    #[test]
    fn names_have_a_fixed_length_and_sort_by_number() {
        assert_eq!(name("b-", 7), "b-0000007");
        assert!(name("b-", 9) < name("b-", 10));
    }
}
