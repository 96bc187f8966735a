// Package consul answers the part of Consul's HTTP API with which programs register
// and find services, and its names in DNS, for clients that were written for Consul
// (docs/consul.md has the subset). It has no lease, version or subscription of its own:
// a registration is one by request, and a query that blocks is a request that waits, as
// below /v1/services; the session gives both as a Cluster.
//
//	PUT agent/service/register ---> Value ---> a registration under the service's name
//	PUT agent/check/pass/...   ---> its lease is renewed; another status is another value
//	GET health/service/NAME    <--- Parse <--- the list of that name, from any publisher
//
// An agent is here all that one token registers from one address at this session. The
// node of an instance is the host of its address.
//
// The index of a service is the version of its list. What a session has answered it
// remembers with its content, so that a query that brings the index subscribes from there,
// with the push guard. The index of the catalog is the time of its last change here.
//
// # Files, in reading order
//
//   - server.go: the paths, tokens, answers and errors.
//   - agent.go: the services of an agent: registered, checked, removed.
//   - catalog.go: all services, read while there are requests for them.
//   - dns.go: services by name.
//   - health.go: the instances of a service, and queries that wait for its next version.
//   - query.go: the parameters of a query.
//   - instance.go: what a value has of an instance, and how Consul shows it.
//   - cluster.go: what a session gives this package.
package consul
