package hostile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// target is what the attackers know of the cluster.
type target struct {
	at       map[string]string // addresses, by name of node, and of console, db and control
	stranger string            // the id of an honest registration
}

// The environment of an attacker's process.
const attackKey, atKey, strangerKey = "HOSTILE_ATTACK", "HOSTILE_AT", "HOSTILE_STRANGER"

// harmless is the name of the control: an attack that does nothing to the cluster, and
// takes all processors, as far as no other process wants them.
const harmless = "a load that harms nobody"

// playFor is how long an attack is played at least, again and again.
const playFor = time.Second

// loadFor is how long the load lasts at most. It is killed before: but not if the suite
// has ended without an end of its own, at the limit of `go test`, for instance.
const loadFor = 30 * time.Second

// TestAttacker plays one attack. The suite runs it as a process of its own.
func TestAttacker(t *testing.T) {
	name := os.Getenv(attackKey)
	if name == "" {
		t.Skip("the process of an attacker")
	}
	if name == harmless {
		began := time.Now()
		each(4, func(int) {
			for time.Since(began) < loadFor {
				continue
			}
		})
		return
	}
	w := &target{stranger: os.Getenv(strangerKey)}
	require.NoError(t, json.Unmarshal([]byte(os.Getenv(atKey)), &w.at))
	for _, a := range slices.Concat(attacks, attacksOnTLS, loads) {
		for began := time.Now(); a.name == name && time.Since(began) < playFor; {
			a.play(t.Context(), t, w)
		}
	}
}

// attacker starts a process that plays an attack, until it ends or ctx does. Its
// priority is the lowest: what it takes of the processors itself, the cluster and the
// honest clients do not want.
func (w *world) attacker(ctx context.Context, t *testing.T, name string) (wait func() (output string, err error)) {
	all := maps.Clone(w.at)
	maps.Copy(all, w.others)
	at, err := json.Marshal(all)
	require.NoError(t, err)
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "nice", "-n", "19", os.Args[0], "-test.run=^TestAttacker$", "-test.v")
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, time.Second
	cmd.Env = append(os.Environ(), attackKey+"="+name, atKey+"="+string(at))
	if w.strangers != nil {
		cmd.Env = append(cmd.Env, strangerKey+"="+w.strangers.ID())
	}
	require.NoError(t, cmd.Start())
	return func() (string, error) {
		err := cmd.Wait()
		return out.String(), err
	}
}
