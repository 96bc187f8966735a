package hostile_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// attack is one way to harm the cluster.
type attack struct {
	name string
	play func(ctx context.Context, t *testing.T, w *target) // in a process of its own

	before, after func(ctx context.Context, t *testing.T, w *world) // what the honest do for it, and see of it; may be nil
	as            string                                            // the load that it is compared with; "" is harmless
}

// loads are what some attacks are compared with: requests as theirs by clients that do
// nothing wrong, if these alone keep the nodes busy.
var loads = []attack{
	{name: "readers of a large list", play: readers},
	{name: "a list in turn", play: subscribingBriefly(honestName, true)},
}

// attacks are those of issue 16, and others.
var attacks = []attack{
	{name: "a compressed bomb", play: compressedBomb},
	{name: "messages that inflate", play: messagesThatInflate},
	{name: "giant fields and names", play: giantFields},
	{name: "thousands of subscriptions", play: thousandsOfSubscriptions, as: "a list in turn"},
	{name: "subscribing and unsubscribing, unread", play: subscribingInTurn, before: large},
	{name: "names that nothing has, in turn", play: subscribingBriefly(strangeName, false), as: "a list in turn"},
	{name: "thousands of streams", play: thousandsOfStreams},
	{name: "thousands of connections", play: thousandsOfConnections},
	{name: "slow readers of a large list", play: slowReaders, before: large, as: "readers of a large list"},
	{name: "messages in part", play: messagesInPart},
	{name: "bodies in part, without a token", play: bodiesInPart},
	{name: "versions that were never pushed", play: claimedVersions},
	{name: "a stranger's registration", play: strangersRegistration, before: publishStrangers, after: seeStrangers},
	{name: "web pages of others", play: foreignOrigins},
	{name: "a publisher's token as a node's", play: publisherAsNode},
	{name: "tokens that are guessed, and giant ones", play: guessedTokens},
	{name: "terms that no leader reaches", play: impossibleTerms, after: useEverySlot},
	{name: "half-open HTTP/2", play: halfOpen},
	{name: "floods of header fields", play: headerFloods},
	{name: "slowloris", play: slowloris},
	{name: "hosts, paths and methods without number", play: strangeRequests},
	{name: "numbers and keys that cannot be", play: strangeQueries},
	{name: "answers that are not read", play: unreadAnswers},
	{name: "the console: connections, and streams that are not read", play: consoleConnections},
	{name: "the console: acts without the link, and strange requests", play: consoleRequests},
	{name: "the database: connections that do not log in", play: databaseConnections},
	{name: "the database: garbage, giant packets and guessed passwords", play: databaseLogins},
	{name: "the control socket: garbage, and requests in part", play: controlRequests},
}

// attacksOnTLS are played on a cluster whose nodes use TLS.
var attacksOnTLS = []attack{
	{name: "TLS: handshakes that are not finished", play: handshakesInPart},
	{name: "TLS: no TLS, and old TLS", play: withoutTLS},
	{name: "TLS: thousands of handshakes", play: thousandsOfHandshakes},
	{name: "TLS: certificates of another CA", play: foreignCertificates},
}

func publishStrangers(ctx context.Context, t *testing.T, w *world) {
	if w.strangers != nil {
		return
	}
	ctx, end := lasting(ctx, 10*time.Second)
	defer end()
	var err error
	w.strangers, err = w.writers[0].Client.Publish(ctx, "strangers", []string{"mine"})
	require.NoError(t, err)
	require.NoError(t, w.strangers.Stored(ctx))
}

func seeStrangers(_ context.Context, t *testing.T, w *world) {
	sub, err := w.readers[1].Client.Subscribe("strangers")
	require.NoError(t, err)
	defer sub.Close()
	assert.Eventually(t, func() bool { d, ok := sub.Last(); return ok && len(d.Values) == 1 }, 5*time.Second, 10*time.Millisecond)
}

// useEverySlot checks that every slot still takes writes.
func useEverySlot(ctx context.Context, t *testing.T, w *world) {
	ctx, end := lasting(ctx, 10*time.Second)
	defer end()
	for i := range 32 {
		p, err := w.writers[1].Client.Publish(ctx, fmt.Sprint("after-", i), []string{"a"})
		require.NoError(t, err)
		require.NoError(t, p.Stored(ctx), "after-%d", i)
	}
}
