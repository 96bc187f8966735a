// Registers a value and watches all of them with the client of SOFARegistry for Node, which
// may send what waits only with a further call.
const { RegistryClient } = require("sofa-registry-node");
const urllib = require("urllib");

const [endpoint, port] = process.env.SOFA.split(":");
const logger = { debug() {}, info() {}, warn() {}, error() {} };
const client = new RegistryClient({ logger, httpclient: urllib, config: { endpoint, port: Number(port), appname: "node" } });

client.subscribe({ dataId: "svc", scope: "global" }, ({ zoneData }) => console.log(Object.values(zoneData).flat().sort().join(" ")));
client.register({ dataId: "svc", data: ["10.0.0.2:2"] });
setInterval(() => client.register({ dataId: "another", data: [] }), 1000);
