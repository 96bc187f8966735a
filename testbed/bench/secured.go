package bench

import (
	"context"
	"fmt"

	"conclave/testbed/load"
)

// The cluster without TLS and the one with it are measured in turns, tlsRounds times,
// so that other work on the machine disturbs both. Each turn stores tlsRegistrations.
const (
	tlsRounds        = 3
	tlsRegistrations = 50_000
)

// tls compares a cluster that uses TLS with the one that does not, both with tokens:
// publish to push, and registrations per second of one client.
func (r *run) tls(ctx context.Context) error {
	return r.onAnother(ctx, true, func(other *cluster) error {
		if err := other.settled(ctx); err != nil {
			return err
		}
		return r.compareWith(ctx, other)
	})
}

// compareWith takes the turns, and reports the figures of the cluster with TLS, whose
// targets are relative to those of the other one.
func (r *run) compareWith(ctx context.Context, other *cluster) error {
	var pushes, rates [2]*load.Dist
	for round := range tlsRounds {
		for i, one := range []*cluster{r.cluster, other} {
			if round == 0 {
				pushes[i], rates[i] = load.NewDist(), load.NewDist()
			}
			took, err := one.pushes(ctx, 1, 5*r.N, fmt.Sprint("tls-push-", round))
			if err != nil {
				return err
			}
			pushes[i].Merge(took)
			rate, err := one.register(ctx, fmt.Sprint("tls-registrations-", round), tlsRegistrations)
			if err != nil {
				return err
			}
			rates[i].AddMs(rate)
		}
	}
	push, rate := pushes[0].Values(), rates[0].Values()
	r.report(Figure{
		Name: "tls-publish-to-push", What: "with TLS: publish to push, one subscriber",
		Note: fmt.Sprintf("p50 without TLS in the same run: %s ms", number(push.P50)),
	}, pushes[1].Values(), Limit{P50: push.P50 + 1})
	r.report(Figure{
		Name: "tls-registrations", What: "with TLS: registrations per second, one client", Unit: "per s",
		Note: fmt.Sprintf("without TLS in the same run: %s", number(rate.P50)),
	}, rates[1].Values(), Limit{AtLeast: rate.P50 * 3 / 4})
	return nil
}
