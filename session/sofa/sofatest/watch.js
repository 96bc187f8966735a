// Registers a value and watches all of them with the client of SOFARegistry for Node, which
// may send what waits only with a further call. It changes the value once it has seen another
// registration, and then that it was withdrawn.
const { RegistryClient } = require("sofa-registry-node");
const urllib = require("urllib");

const [endpoint, port] = process.env.SOFA.split(":");
const logger = { debug() {}, info() {}, warn() {}, error() {} };
const client = new RegistryClient({ logger, httpclient: urllib, config: { endpoint, port: Number(port), appname: "node" } });
const watch = (dataId, listener) => client.subscribe({ dataId, scope: "global" }, ({ zoneData }) => listener(Object.values(zoneData).flat().sort()));

watch("svc", (values) => console.log(values.join(" ")));
client.register({ dataId: "svc", data: ["10.0.0.2:0"] });
client.register({ dataId: "another-of-node", data: ["x"] });
let seen = false;
watch("another-of-node", (values) => {
  if (values.length > 0) {
    seen = true;
    client.unregister({ dataId: "another-of-node" });
  } else if (seen) {
    seen = false;
    client.register({ dataId: "svc", data: ["10.0.0.2:2"] });
  }
});
setInterval(() => client.register({ dataId: "more", data: [] }), 1000);
