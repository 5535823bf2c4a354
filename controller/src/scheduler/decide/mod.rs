//! The decision about one pod: all filters for all nodes, then the best of the feasible nodes, or upstream's message why there
//! is none. No I/O, no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::cluster::{Cluster, NodeState};
use super::disks::Disks;
use super::filter::node_terms::NodeTerms;
use super::filter::taints::Tolerations;
use super::filter::volume_binding::{self, NotNow, Plan, PodClaims, PodVolumes};
use super::filter::{
    Broken, Misfit, Rule, Rules, limits, node_affinity, pod_affinity, ports, resources, restrictions, spread,
    taints, too_large, unschedulable, zone,
};
use super::pod::PodFacts;
use super::volumes::Volumes;
use super::{message, score};
use orlop_apimachinery::quantity::Quantity;
use orlop_apimachinery::steps::Steps;
use orlop_volume::{class, object};

/// The result of a decision.
#[derive(Debug, PartialEq)]
pub enum Decision {
    /// A node was selected.
    Place {
        /// The node.
        node: String,
        /// The volume operations to do first.
        volumes: PodVolumes,
    },
    /// No node is feasible.
    Unfit {
        /// The message for the user.
        message: String,
        /// The rules that rejected nodes; changes that affect them may help.
        rules: Rules,
        /// The classes of the pod's claims, as far as they were read: a volume of such a class may help.
        classes: BTreeSet<String>,
    },
}

/// Selects a node for a pod.
pub fn decide(
    pod: &Pod,
    facts: &PodFacts,
    cluster: &mut Cluster,
    volumes: &mut Volumes,
) -> Result<Decision, Broken> {
    cluster.settle_disks(volumes);
    let (cluster, volumes) = (&*cluster, &*volumes);
    if cluster.nodes().len() == 0 {
        let rules = Rules::of(&[Rule::NoNodes]);
        return Ok(Decision::Unfit {
            message: message::NO_NODES.to_owned(),
            rules,
            classes: BTreeSet::new(),
        });
    }
    let question = match Question::new(pod, facts, cluster, volumes) {
        Ok(question) => question,
        Err(PodRefusal::Broken(broken)) => return Err(broken),
        Err(PodRefusal::Unfit { text, rule }) => {
            let nodes = cluster.nodes().len();
            let preemption = match never_evicts(pod) {
                true => message::NEVER.to_owned(),
                false => message::preemption(nodes, (0..nodes).map(|_| message::NOT_HELPFUL)),
            };
            let message = message::unfit(nodes, Some(&text), [].into_iter(), &preemption);
            // Not rejected by a node: no volume helps before a claim or the pod changes.
            return Ok(Decision::Unfit { message, rules: Rules::of(&[rule]), classes: BTreeSet::new() });
        }
    };
    let (mut fits, mut misfits) = (BTreeMap::new(), Vec::new());
    for node in cluster.nodes() {
        match question.ask(node, volumes)? {
            Ok(found) => {
                fits.insert(node.facts.name.as_str(), (node, found));
            }
            Err(misfit) => misfits.push((node, misfit)),
        }
    }
    let nodes: Vec<&NodeState> = fits.values().map(|(node, _)| *node).collect();
    match score::best(pod, &question.tolerations, &facts.requests, &nodes) {
        Some(node) => {
            let volumes =
                fits.remove(node.facts.name.as_str()).map(|(_, found)| found.read()).unwrap_or_default();
            Ok(Decision::Place { node: node.facts.name.clone(), volumes })
        }
        None => {
            let classes = question.claims.all().map(|claim| class::claim_class(claim).to_owned()).collect();
            Ok(unfit(pod, facts, &misfits, classes))
        }
    }
}

fn never_evicts(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.preemption_policy.as_deref()) == Some("Never")
}

fn unfit(
    pod: &Pod,
    facts: &PodFacts,
    misfits: &[(&NodeState, Misfit)],
    classes: BTreeSet<String>,
) -> Decision {
    let mut rules = Rules::default();
    misfits.iter().for_each(|(_, misfit)| rules.insert(misfit.rule));
    let preemption = if never_evicts(pod) {
        message::NEVER.to_owned()
    } else {
        let word = |(node, misfit): &(&NodeState, Misfit)| {
            if !misfit.resolvable {
                message::NOT_HELPFUL
            } else if node.pods.values().any(|other| other.priority < facts.priority) {
                message::NO_PREEMPTION
            } else {
                message::NO_VICTIMS
            }
        };
        message::preemption(misfits.len(), misfits.iter().map(word))
    };
    let reasons = misfits.iter().flat_map(|(_, misfit)| &misfit.reasons).map(String::as_str);
    let message = message::unfit(misfits.len(), None, reasons, &preemption);
    Decision::Unfit { message, rules, classes }
}

/// Why no node was checked.
enum PodRefusal {
    Unfit { text: String, rule: Rule },
    Broken(Broken),
}

/// A pod and everything that the rules need to know of it.
struct Question<'a> {
    facts: &'a PodFacts,
    tolerations: Tolerations<'a>,
    node_terms: NodeTerms<'a>,
    requests: Vec<(&'a str, &'a Quantity)>,
    named: Option<BTreeSet<String>>,
    claims: PodClaims,
    claim_in_use: bool,
    brought: limits::Brought,
    disks: &'a Disks,
    spread: Vec<spread::Counted>,
    places: pod_affinity::AffinityDomains,
    visits: Steps,
}

impl<'a> Question<'a> {
    fn new(
        pod: &'a Pod,
        facts: &'a PodFacts,
        cluster: &'a Cluster,
        volumes: &Volumes,
    ) -> Result<Self, PodRefusal> {
        if let Some(text) = too_large::reason(pod, facts) {
            return Err(PodRefusal::Unfit { text, rule: Rule::Unsupported });
        }
        let named = node_affinity::named_nodes(pod);
        if named.as_ref().is_some_and(BTreeSet::is_empty) {
            let text = node_affinity::CONFLICT.to_owned();
            return Err(PodRefusal::Unfit { text, rule: Rule::NodeAffinity });
        }
        if pod.spec.as_ref().is_some_and(|spec| spec.resource_claims.iter().flatten().next().is_some()) {
            let text = "the pod has resource claims (spec.resourceClaims), which this scheduler does not \
                        allocate"
                .to_owned();
            return Err(PodRefusal::Unfit { text, rule: Rule::Unsupported });
        }
        let claims = volume_binding::claims_of(pod, volumes).map_err(|not_now| match not_now {
            NotNow::Unfit(text) => PodRefusal::Unfit { text, rule: Rule::VolumeBinding },
            NotNow::Broken(broken) => PodRefusal::Broken(broken),
        })?;
        let in_use = claims
            .all()
            .any(|claim| Volumes::is_for_one_pod(claim) && cluster.is_claim_used(&object::claim_key(claim)));
        let mut brought = limits::Brought::new();
        for disk in facts.claims.iter().filter_map(|claim| volumes.disk_of(claim).disk) {
            brought.entry(disk.0.clone()).or_default().insert(disk);
        }
        Ok(Self {
            facts,
            tolerations: Tolerations::of(pod),
            node_terms: NodeTerms::of(pod),
            requests: resources::wanted(&facts.requests),
            named,
            claim_in_use: in_use,
            brought,
            disks: cluster.disks(),
            claims,
            spread: spread::count(pod, facts, cluster),
            places: pod_affinity::places(facts, cluster),
            visits: volume_binding::visits(cluster.nodes().len(), volumes.index().names().len()),
        })
    }

    /// Applies all rules, in upstream's order.
    fn ask(&self, node: &NodeState, volumes: &Volumes) -> Result<Result<Plan, Misfit>, Broken> {
        if let Err(misfit) = self.before_volumes(node) {
            return Ok(Err(misfit));
        }
        let found = match volume_binding::check(&self.claims, volumes, &node.facts, &self.visits)? {
            Ok(found) => found,
            Err(misfit) => return Ok(Err(misfit)),
        };
        Ok(self.after_volumes(node).map(|()| found))
    }

    fn before_volumes(&self, node: &NodeState) -> Result<(), Misfit> {
        let facts = node.facts.as_ref();
        if self.named.as_ref().is_some_and(|named| !named.contains(&facts.name)) {
            return Err(Misfit::fixed(Rule::NodeAffinity, node_affinity::NOT_NAMED));
        }
        unschedulable::check(&self.tolerations, facts)?;
        taints::check(&self.tolerations, facts)?;
        node_affinity::check(&self.node_terms, facts)?;
        ports::check(&self.facts.ports, node)?;
        resources::check(&self.requests, node)?;
        restrictions::check(&self.facts.disks, self.claim_in_use, node)?;
        match self.brought.is_empty() {
            true => Ok(()),
            false => limits::check(&self.brought, self.disks.on(&facts.name)),
        }
    }

    fn after_volumes(&self, node: &NodeState) -> Result<(), Misfit> {
        for volume in self.claims.bound.iter().filter_map(|bound| bound.volume.as_ref()) {
            zone::check(volume, &node.facts)?;
        }
        spread::check(&self.spread, &node.facts)?;
        self.places.check(&node.facts)
    }
}

/// The facts of a pod that decisions read.
pub fn facts_of(pod: &Pod) -> Arc<PodFacts> {
    Arc::new(PodFacts::of(pod))
}

#[cfg(test)]
mod tests;
