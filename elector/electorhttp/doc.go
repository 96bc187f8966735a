// Package electorhttp shows an election to operators and to what routes requests:
// whether this process is alive, whether it leads, and figures for Prometheus. It needs
// the standard library only.
//
//	mux.Handle("/election/", http.StripPrefix("/election", electorhttp.Handler(e)))
//
// In Kubernetes /healthz is the liveness probe. A Service that is to reach the leader
// only can have /leaderz as the readiness probe of its pods; a load balancer checks the
// same path. All pods but one are not ready then, for which a Deployment's rolling update
// waits for ever unless it may take them away (maxUnavailable at 100%, or strategy
// Recreate), and a StatefulSet in any case: give its pods another readiness probe. An
// answer is as old as its transport: the leader itself checks elector.Elector.Leading
// before each act, or fences what it writes.
//
//	livenessProbe:
//	  httpGet: {path: /election/healthz, port: 8080}
//	readinessProbe:
//	  httpGet: {path: /election/leaderz, port: 8080}
//	  periodSeconds: 1
//
// # Files, in reading order
//
//   - confirm.go: how a candidate asks the leader whether it leads
//   - handler.go: the paths
//   - metrics.go: the figures in the OpenMetrics format
package electorhttp
