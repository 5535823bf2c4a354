"""Runs the informer of the Python client and prints its cache after each change, one JSON object per line."""

import json
import logging
import sys
import threading

from kubernetes import client
from kubernetes.informer import ADDED, DELETED, ERROR, MODIFIED, SharedInformer

# The ERROR handler below prints the errors.
logging.disable(logging.CRITICAL)
configuration = client.Configuration()
configuration.host = sys.argv[1]
core = client.CoreV1Api(client.ApiClient(configuration))
lists = 0
said = []


def listed(*args, **kwargs):
    global lists
    if not kwargs.get("watch"):
        lists += 1
    return core.list_namespaced_config_map(*args, **kwargs)


# The library reads the type of the watched objects from the docstring.
listed.__doc__ = core.list_namespaced_config_map.__doc__
listed.__wrapped__ = core.list_namespaced_config_map
informer = SharedInformer(listed, namespace="default")


def tell(event):
    def handler(subject):
        held = {found.metadata.name: found.data["value"] for found in informer.cache.list()}
        code = getattr(subject, "status", None) if event == ERROR else None
        line = json.dumps({"event": event, "held": held, "lists": lists, "code": code})
        # Without a server, the informer retries without a delay and repeats the same error.
        if line not in said[-1:]:
            said.append(line)
            print(line, flush=True)

    return handler


for event in (ADDED, MODIFIED, DELETED, ERROR):
    informer.add_event_handler(event, tell(event))
informer.start()
threading.Event().wait()
