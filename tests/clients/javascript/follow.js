// Runs the informer of the JavaScript client and prints its cache after each change, one JSON object per line.

import * as k8s from '@kubernetes/client-node';

const config = new k8s.KubeConfig();
// Without `skipTLSVerify` the client rejects plain HTTP.
const cluster = { name: 'orlop', server: process.argv[2], skipTLSVerify: true };
config.loadFromClusterAndUser(cluster, { name: 'nobody' });
const core = config.makeApiClient(k8s.CoreV1Api);

let lists = 0;
const list = () => {
  lists += 1;
  return core.listNamespacedConfigMap({ namespace: 'default' });
};
const informer = k8s.makeInformer(config, '/api/v1/namespaces/default/configmaps', list);

let said = '';
function tell(event, code) {
  const held = Object.fromEntries(informer.list('default').map((map) => [map.metadata.name, map.data.value]));
  const line = JSON.stringify({ event, held, code });
  // Without a server, the informer repeats the same error.
  if (line === said) return;
  said = line;
  console.log(JSON.stringify({ event, held, lists, code }));
}
for (const event of ['add', 'update', 'delete']) informer.on(event, () => tell(event));
informer.on('error', (error) => {
  tell('error', error?.code ?? error?.statusCode);
  // The client's documentation recommends restarting the informer after an error.
  setTimeout(() => informer.start(), 50);
});
await informer.start();
