"""Typical operations with the Python client: create, list, patch, apply, delete. The argument is the server's URL."""

import sys

from kubernetes import client, dynamic, utils

configuration = client.Configuration()
configuration.host = sys.argv[1]
api_client = client.ApiClient(configuration)
core = client.CoreV1Api(api_client)
storage = client.StorageV1Api(api_client)
WHERE = "default"


def config_map(name, value="1", **labels):
    metadata = client.V1ObjectMeta(name=name, labels=labels or None)
    return client.V1ConfigMap(metadata=metadata, data={"value": value})


def refused(code, reason, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except client.ApiException as error:
        assert (error.status, f'"reason":"{reason}"' in error.body) == (code, True), error
        return
    raise AssertionError(f"{call} was not rejected")


# Create and read.
for name in "abcde":
    made = core.create_namespaced_config_map(WHERE, config_map(name, parity="odd" if name in "ace" else "even"))
    assert made.metadata.uid and made.metadata.creation_timestamp.tzinfo, made
refused(409, "AlreadyExists", core.create_namespaced_config_map, WHERE, config_map("a"))
refused(404, "NotFound", core.read_namespaced_config_map, "nobody", WHERE)
volume = client.V1PersistentVolume(
    metadata=client.V1ObjectMeta(generate_name="disk-"),
    spec=client.V1PersistentVolumeSpec(
        capacity={"storage": "1Gi"},
        access_modes=["ReadWriteOnce"],
        host_path=client.V1HostPathVolumeSource(path="/tmp/disk"),
    ),
)
volume = core.create_persistent_volume(volume)
assert volume.metadata.name.startswith("disk-") and volume.status.phase == "Pending", volume
bad = client.V1PersistentVolume(
    metadata=client.V1ObjectMeta(name="bad"),
    spec=client.V1PersistentVolumeSpec(capacity={"storage": "-1"}, access_modes=["ReadWriteOnce"]),
)
refused(422, "Invalid", core.create_persistent_volume, bad)
storage.create_storage_class(client.V1StorageClass(metadata=client.V1ObjectMeta(name="slow"), provisioner="example.com/x"))
assert [c.metadata.name for c in storage.list_storage_class().items] == ["slow"]

# Lists: with selectors, and in pages of one consistent state.
names = lambda found: [item.metadata.name for item in found.items]
assert names(core.list_namespaced_config_map(WHERE, label_selector="parity=odd")) == ["a", "c", "e"]
assert names(core.list_config_map_for_all_namespaces(field_selector="metadata.name=b")) == ["b"]
parts, token = [], None
while True:
    part = core.list_namespaced_config_map(WHERE, limit=2, _continue=token)
    parts.append(names(part))
    token = part.metadata._continue
    if len(parts) == 1:
        core.create_namespaced_config_map(WHERE, config_map("later"))
    if not token:
        break
assert parts == [["a", "b"], ["c", "d"], ["e"]], parts

# Update, and a conflict with an outdated version.
old = core.read_namespaced_config_map("a", WHERE)
old.data["value"] = "2"
core.replace_namespaced_config_map("a", WHERE, old)
refused(409, "Conflict", core.replace_namespaced_config_map, "a", WHERE, old)

# Every patch type. The client derives it from the body, or the caller sets `content_type`.
dynamic_client = dynamic.DynamicClient(api_client)
maps = dynamic_client.resources.get(api_version="v1", kind="ConfigMap")
value = lambda: core.read_namespaced_config_map("a", WHERE).data["value"]
core.patch_namespaced_config_map("a", WHERE, {"data": {"value": "3"}})
assert value() == "3"
core.patch_namespaced_config_map("a", WHERE, [{"op": "replace", "path": "/data/value", "value": "4"}])
assert value() == "4"
for kind, new in (("strategic-merge-patch+json", "5"), ("merge-patch+json", "6")):
    maps.patch({"data": {"value": new}}, name="a", namespace=WHERE, content_type=f"application/{kind}")
    assert value() == new, kind
core.patch_persistent_volume(volume.metadata.name, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}})
core.patch_namespaced_config_map("a", WHERE, {"data": {"value": "no"}}, dry_run="All")
assert value() == "6"

# Server-side apply.
def apply(manager, new, force=False):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"value": new}}
    return maps.server_side_apply(body, name="applied", namespace=WHERE, field_manager=manager, force_conflicts=force)


first = apply("me", "1")
assert apply("me", "1").metadata.resourceVersion == first.metadata.resourceVersion
try:
    apply("other", "2")
    raise AssertionError("the conflict was not reported")
except dynamic.exceptions.ConflictError as error:
    assert 'conflict with \\"me\\"' in str(error.body), error.body
apply("other", "2", force=True)
managers = core.read_namespaced_config_map("applied", WHERE).metadata.managed_fields
assert [entry.manager for entry in managers if entry.operation == "Apply"] == ["other"], managers

# Files, discovery, versions.
utils.create_from_dict(api_client, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "v"}})
assert core.read_namespaced_secret("s", WHERE).data == {"k": "dg=="}
assert client.VersionApi(api_client).get_code().minor == "36"
groups = [group.name for group in client.ApisApi(api_client).get_api_versions().groups]
assert "storage.k8s.io" in groups, groups
resources = [resource.name for resource in core.get_api_resources().resources]
assert "persistentvolumes/status" in resources, resources

# Delete.
gone = core.delete_namespaced_config_map("a", WHERE, body=client.V1DeleteOptions(propagation_policy="Background"))
assert gone["status"] == "Success", gone
refused(404, "NotFound", core.delete_namespaced_config_map, "a", WHERE)
core.delete_collection_namespaced_config_map(WHERE, label_selector="parity")
assert names(core.list_namespaced_config_map(WHERE)) == ["applied", "later"]
print("done")
