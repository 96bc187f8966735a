package session

import (
	"cmp"
	"fmt"
	"time"

	"conclave"
	"conclave/internal/node"
	"conclave/session/registry"
	"conclave/wire/list"
	"conclave/wire/serve"
)

// Config configures a session. Zero durations take the values of DefaultConfig.
// Without a Token every client may register; see node.Config. A data node's feed counts as broken
// after two missed Beats.
type Config struct {
	node.Config

	// ClientLease is how long the registrations of a broken connection are kept
	// for their client to come back (a quarter of it if the client's end was seen
	// and no other client was lost), and how long a silent connection counts as
	// open. It is at least three times the client's ping interval, which is a
	// fifth of it. Default 5 s.
	ClientLease time.Duration
	// SessionGrace is how long tombstones are remembered once data has them, also
	// by clients; the time within which removals are counted together; and, with
	// 5 s added, the longest time for which the push guard holds a push back.
	// ClientLease is at most two thirds of it. Default 15 s, as on the data nodes.
	SessionGrace time.Duration
	// PushWindow is the time after a push of a datum within which its further
	// changes are merged, unless the switch push-window-ms overrides it.
	// Default 10 ms.
	PushWindow time.Duration
	// DrainTimeout is how long a graceful stop waits for clients to move to
	// another session. Default 10 s.
	DrainTimeout time.Duration

	// ConsulListen is the address of a port for clients of Consul, and DNSListen of one for
	// names below service.consul, over TCP and UDP (docs/consul.md); "" is none. A question
	// of DNS has no token.
	ConsulListen, DNSListen string
	// SofaListen is the address of a port for clients of SOFARegistry (docs/sofa.md), whose
	// protocol has no TLS; "" is none.
	SofaListen string

	// MaxSubscriptions and MaxRegistrations are how many of them a client may have
	// here, and MaxClientBytes how much memory they may take, about. MaxAddressBytes is
	// how much those of all clients from one address may take. What exceeds a limit is
	// refused with the code limit_reached, and its client sends it again later; the rest
	// stays. Defaults 65,536; 1,050,000; 1 GiB; 2 GiB.
	MaxSubscriptions, MaxRegistrations int
	MaxClientBytes, MaxAddressBytes    int64
	// MaxOutboxBytes is how many bytes of answers may wait for a client that does not read
	// them. A client that exceeds it loses its connection, and can connect again. The
	// session keeps as many of old lists, to send a slow client only what has changed in
	// them. The lists themselves, which it has in any case, do not count. Default 256 MiB.
	MaxOutboxBytes int64
	// MaxListBytes is the size of the largest list that is read and pushed, about, as it
	// is in memory. Subscribers of a larger one get an error, and keep what they have.
	// Default 256 MiB.
	MaxListBytes int64
}

// DefaultConfig returns a Config with every default. The caller sets Node and
// Metas.
func DefaultConfig() Config {
	return Config{
		Config:       node.Config{Listen: "127.0.0.1:9603"}.WithDefaults(),
		ClientLease:  5 * time.Second,
		SessionGrace: 15 * time.Second,
		PushWindow:   10 * time.Millisecond,
		DrainTimeout: 10 * time.Second,

		MaxSubscriptions: 1 << 16, MaxRegistrations: 1_050_000,
		MaxClientBytes: 1 << 30, MaxAddressBytes: 2 << 30, MaxOutboxBytes: 256 << 20, MaxListBytes: list.MaxBytes,
	}
}

// withDefaults returns c with its zero fields set to the defaults.
func (c Config) withDefaults() Config { return node.Filled(c, DefaultConfig()) }

// Validate reports the first invalid field and the constraint that it violates.
// Zero fields stand for their defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	if c.ClientLease > registry.FreshFor(c.SessionGrace) {
		return fmt.Errorf("client lease %s is above two thirds of the session grace %s: a client may be silent for a lease, "+
			"and its registrations would be held back in between", c.ClientLease, c.SessionGrace)
	}
	if c.DNSListen != "" && c.HasTokens() && !c.PublicReads {
		return fmt.Errorf("DNS at %s answers without a token: set --public-reads, or do not set --dns-listen", c.DNSListen)
	}
	if c.SofaListen != "" && c.TLS != nil && serve.CheckListen(c.SofaListen, false, c.Insecure) != nil {
		return fmt.Errorf("clients of SOFARegistry at %s know no TLS: set --insecure if their values and tokens may be sent in the clear, or do not set --sofa-listen", c.SofaListen)
	}
	for _, address := range []string{c.ConsulListen, c.DNSListen, c.SofaListen} {
		if address == "" {
			continue
		}
		if err := c.CheckListen(address); err != nil {
			return err
		}
	}
	return cmp.Or(c.Config.Validate(conclave.RoleSession), node.Positive(c))
}
