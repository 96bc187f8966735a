package client_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

var errToken = wire.ToConnect(wire.Errorf(wire.CodeUnauthorized, "the token is not valid"))

// A client whose token is refused, when it connects or when it registers, tries
// again with the usual pauses and the token read again.
func TestToken_RefusalIsTriedAgain(t *testing.T) {
	for name, refuse := range map[string]func(*fakeSession){
		"the connection": func(s *fakeSession) { s.refuse = errToken },
		"a registration": func(s *fakeSession) {
			s.check = func(id string) *wirev1.Refusal { return &wirev1.Refusal{Id: id, Code: string(wire.CodeUnauthorized)} }
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				s := w.session("s1")
				s.set(func() { refuse(s) })
				var reads atomic.Int64
				c := w.configured(client.Config{Sessions: []string{s.address}, TokenFrom: func() (string, error) {
					if reads.Add(1) == 2 {
						return "", errors.New("it is being written")
					}
					return "token", nil
				}})
				ctx, cancel := within(time.Minute)
				defer cancel()
				p, err := c.Publish(ctx, "svc", []string{"a"})
				require.NoError(t, err)
				time.Sleep(30 * time.Second)
				assert.NoError(t, p.Err(), "it is not final")
				tries := s.attempts()
				assert.Less(t, tries, 60, "with pauses")
				assert.Greater(t, tries, 12)
				assert.GreaterOrEqual(t, reads.Load(), int64(tries))
				s.set(func() { s.refuse, s.check = nil, nil })
				require.NoError(t, p.Stored(ctx))
			})
		})
	}
}

// Without a token, or if the program gives up, a refusal is final.
func TestToken_RefusalIsFinalForWhoGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.session("s1")
		s.set(func() { s.refuse = errToken })
		c := w.configured(client.Config{Sessions: []string{s.address}, Token: "wrong", GiveUp: true})
		ctx, cancel := within(time.Minute)
		defer cancel()
		p, err := c.Publish(ctx, "svc", []string{"a"})
		require.NoError(t, err)
		sub, err := c.Subscribe("svc")
		require.NoError(t, err)
		assert.Equal(t, wire.CodeUnauthorized, wire.CodeOf(p.Stored(ctx)))
		w.eventually("the subscription has it, too", func() bool { return wire.CodeOf(sub.Err()) == wire.CodeUnauthorized })
	})
}

// There is nothing to withdraw if no session has ever taken the client. One that was
// taken before may be visible still.
func TestClose_DoesNotWaitForARefusedToken(t *testing.T) {
	for _, taken := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *world) {
			s := w.session("s1")
			refuse := func() {
				s.refuse = errToken
				s.check = func(id string) *wirev1.Refusal { return &wirev1.Refusal{Id: id, Code: string(wire.CodeUnauthorized)} }
			}
			if !taken {
				s.set(refuse)
			}
			c := w.configured(client.Config{Sessions: []string{s.address}, TokenFrom: func() (string, error) { return "wrong", nil }})
			ctx, cancel := within(time.Minute)
			defer cancel()
			if taken {
				p, err := c.Publish(ctx, "svc", []string{"a"})
				require.NoError(t, err)
				require.NoError(t, p.Stored(ctx))
				s.set(refuse)
			}
			_, err := c.Publish(ctx, "other", []string{"a"})
			require.NoError(t, err)
			time.Sleep(10 * time.Second)
			start := time.Now()
			err = c.Close(ctx)
			assert.Equal(t, taken, err != nil, err)
			assert.Equal(t, taken, time.Since(start) > time.Second)
		})
	}
}

func TestTokenFile_IsTheLastWordOfTheFirstLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	read := client.TokenFile(path)
	_, err := read()
	assert.Error(t, err)
	for text, want := range map[string]string{"a\n": "a", "\n# note\n  b  \nc": "b", "publish shop d\n": "d"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		token, err := read()
		require.NoError(t, err)
		assert.Equal(t, want, token)
	}
	require.NoError(t, os.WriteFile(path, []byte("# none\n"), 0o600))
	_, err = read()
	assert.Error(t, err)
}
