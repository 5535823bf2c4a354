//! A set of field paths: the fields owned by a manager, or changed by a write.
//!
//! A set is a tree. Each node is one step of a path (a field, a list item by its keys, a member of a set, a
//! position in a list). A node that is a member represents the path that ends there; a set with `a.b` does not
//! necessarily contain `a`. Nodes are sorted, so union, intersection and difference each take one pass over both
//! trees. Sets are independent of types.

use std::cmp::Ordering;

/// A scalar in a path: the value of a key or of a set member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Atom {
    /// An integer.
    Int(i64),
    /// Any other number, as bits: paths only need equality and a fixed order.
    Float(u64),
    /// Text.
    Text(Box<str>),
    /// `true` or `false`.
    Bool(bool),
    /// `null`.
    Null,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Element {
    /// A field of a struct or a key of a map.
    Field(Box<str>),
    /// A list item, identified by the values of its key fields, sorted by name.
    Key(Box<[(Box<str>, Atom)]>),
    /// A member of a set of scalars.
    Value(Atom),
    /// A list item, identified by its position.
    Index(i64),
}

impl Element {
    /// A field.
    pub(crate) fn field(name: &str) -> Self {
        Element::Field(name.into())
    }
}

/// One step, with the paths in the set that lead through it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub element: Element,
    /// Whether the path that ends here is in the set.
    pub member: bool,
    /// The longer paths through this node.
    pub below: Set,
}

/// A set of paths. Every node is a member or has something below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set {
    nodes: Vec<Node>,
}

impl Set {
    /// No paths.
    pub(crate) const fn new() -> Self {
        Set { nodes: Vec::new() }
    }

    /// Builds a set from nodes in any order. Nodes of the same element are united; nodes that contain no path are
    /// dropped.
    pub(crate) fn from_nodes(mut nodes: Vec<Node>) -> Self {
        nodes.retain(Node::holds);
        if !nodes.is_sorted_by(|a, b| a.element < b.element) {
            nodes.sort_by(|a, b| a.element.cmp(&b.element));
            nodes.dedup_by(|later, first| {
                let same = later.element == first.element;
                if same {
                    first.member |= later.member;
                    first.below.unite(std::mem::take(&mut later.below));
                }
                same
            });
        }
        Set { nodes }
    }

    /// The union of many sets. Neighbors are united pair by pair, so that each path is visited once for each doubling.
    pub(crate) fn union(mut sets: Vec<Set>) -> Self {
        while sets.len() > 1 {
            let mut rest = sets.into_iter();
            sets = Vec::with_capacity(rest.len().div_ceil(2));
            while let Some(mut set) = rest.next() {
                set.unite(rest.next().unwrap_or_default());
                sets.push(set);
            }
        }
        sets.pop().unwrap_or_default()
    }

    /// Builds a set from paths of field names.
    pub(crate) fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Set::default();
        for path in paths {
            let path: Vec<Element> = path.iter().map(|name| Element::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Adds a path. The empty path is the whole object, which is never owned.
    pub(crate) fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let at = match self.nodes.binary_search_by(|node| node.element.cmp(first)) {
            Ok(at) => at,
            Err(at) => {
                let node = Node { element: first.clone(), member: false, below: Set::default() };
                self.nodes.insert(at, node);
                at
            }
        };
        match rest {
            [] => self.nodes[at].member = true,
            rest => self.nodes[at].below.insert(rest),
        }
    }

    /// The node of an element.
    pub(crate) fn get(&self, element: &Element) -> Option<&Node> {
        let found = self.nodes.binary_search_by(|node| node.element.cmp(element));
        found.ok().map(|at| &self.nodes[at])
    }

    /// Whether a path is in the set.
    pub(crate) fn has(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.get(last).is_some_and(|node| node.member),
            [first, rest @ ..] => self.get(first).is_some_and(|node| node.below.has(rest)),
        }
    }

    /// Adds the paths of another set.
    pub(crate) fn unite(&mut self, other: Set) {
        if self.nodes.is_empty() {
            self.nodes = other.nodes;
            return;
        }
        if other.nodes.is_empty() {
            return;
        }
        let mut merged = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        let mut mine = std::mem::take(&mut self.nodes).into_iter().peekable();
        let mut theirs = other.nodes.into_iter().peekable();
        loop {
            let order = match (mine.peek(), theirs.peek()) {
                (Some(a), Some(b)) => a.element.cmp(&b.element),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            match order {
                Ordering::Less => merged.extend(mine.next()),
                Ordering::Greater => merged.extend(theirs.next()),
                Ordering::Equal => {
                    if let (Some(mut a), Some(b)) = (mine.next(), theirs.next()) {
                        a.member |= b.member;
                        a.below.unite(b.below);
                        merged.push(a);
                    }
                }
            }
        }
        self.nodes = merged;
    }

    /// The paths that are in both sets.
    pub(crate) fn intersection(&self, other: &Set) -> Set {
        let mut common = Vec::new();
        self.each_pair(other, |mine, theirs| {
            let node = Node {
                element: mine.element.clone(),
                member: mine.member && theirs.member,
                below: mine.below.intersection(&theirs.below),
            };
            if node.holds() {
                common.push(node);
            }
        });
        Set { nodes: common }
    }

    /// Removes exactly the paths of another set; paths below or above them stay.
    pub(crate) fn subtract(&mut self, other: &Set) {
        self.retain_pairs(other, |mine, theirs| {
            mine.member &= !theirs.member;
            mine.below.subtract(&theirs.below);
            mine.holds()
        });
    }

    /// Removes the paths of another set and everything below them.
    pub(crate) fn subtract_deep(&mut self, other: &Set) {
        self.retain_pairs(other, |mine, theirs| {
            if theirs.member {
                return false;
            }
            mine.below.subtract_deep(&theirs.below);
            mine.holds()
        });
    }

    /// Calls `visit` for every path, in order.
    pub(crate) fn each_path(&self, visit: &mut dyn FnMut(&[&Element])) {
        fn walk<'s>(set: &'s Set, path: &mut Vec<&'s Element>, visit: &mut dyn FnMut(&[&Element])) {
            for node in &set.nodes {
                path.push(&node.element);
                if node.member {
                    visit(path);
                }
                walk(&node.below, path, visit);
                path.pop();
            }
        }
        walk(self, &mut Vec::new(), visit);
    }

    /// Calls `visit` for the nodes of elements that are in both sets.
    fn each_pair(&self, other: &Set, mut visit: impl FnMut(&Node, &Node)) {
        let (mut mine, mut theirs) = (self.nodes.as_slice(), other.nodes.as_slice());
        while let ([a, a_rest @ ..], [b, b_rest @ ..]) = (mine, theirs) {
            let order = a.element.cmp(&b.element);
            if order == Ordering::Equal {
                visit(a, b);
            }
            match order {
                Ordering::Equal => (mine, theirs) = (a_rest, b_rest),
                Ordering::Less => mine = from_element(a_rest, &b.element),
                Ordering::Greater => theirs = from_element(b_rest, &a.element),
            }
        }
    }

    /// Retains the nodes that are not in the other set; for the others, `keep` decides.
    fn retain_pairs(&mut self, other: &Set, mut keep: impl FnMut(&mut Node, &Node) -> bool) {
        let mut theirs = other.nodes.as_slice();
        if theirs.is_empty() {
            return;
        }
        self.nodes.retain_mut(|mine| {
            theirs = from_element(theirs, &mine.element);
            match theirs {
                [first, rest @ ..] if first.element == mine.element => {
                    theirs = rest;
                    keep(mine, first)
                }
                _ => true,
            }
        });
    }
}

/// The nodes from this element on. Doubles its steps, so that skipping n nodes takes about log n comparisons: an object
/// may have thousands of owners with few fields each, and every write compares each owner with all changes.
fn from_element<'n>(nodes: &'n [Node], element: &Element) -> &'n [Node] {
    let mut end = 1;
    while end <= nodes.len() && nodes[end - 1].element < *element {
        end *= 2;
    }
    let start = end / 2;
    let end = end.min(nodes.len());
    let skipped = nodes[start.min(end)..end].partition_point(|node| node.element < *element);
    &nodes[start.min(end) + skipped..]
}

impl Node {
    /// Creates a node for a path that ends here.
    pub(crate) fn leaf(element: Element) -> Self {
        Node { element, member: true, below: Set::default() }
    }

    fn holds(&self) -> bool {
        self.member || !self.below.is_empty()
    }
}

#[cfg(test)]
mod tests;
