package session_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/trace"
	"conclave/session"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

func TestServices_RegisterRenewWithdraw(t *testing.T) {
	bubble(t, 2, 1, func(t *testing.T, c *cluster) {
		sub, web := c.watch(c.client("reader"), "svc"), c.web()
		c.eventually("the list is empty", sub.shows())
		a := web.put("session-1", "svc", "web-1", "10.0.0.1:80")
		assert.Equal(t, map[string]any{
			"dataId": "svc", "instance": "DEFAULT_INSTANCE_ID", "group": "DEFAULT_GROUP", "id": "web-1", "version": a.doc["version"], "stored": true,
			"ttlMs": 10000.0, "renewAfterMs": 3334.0, "session": "session-1", "sessions": []any{"session-1:9603"},
		}, a.doc)
		c.eventually("it is seen", sub.shows("10.0.0.1:80"))
		for range 6 { // renewal keeps it, and makes no version
			time.Sleep(5 * time.Second)
			b := web.do(http.MethodPost, "session-1", registrationPath("svc", "web-1")+fmt.Sprintf("/renew?version=%d", a.version()), "")
			require.Equal(t, http.StatusOK, b.status, "%v", b.doc)
			assert.Equal(t, a.version(), b.version())
		}
		for range 6 { // a PUT of the same version renews as well
			time.Sleep(5 * time.Second)
			b := web.do(http.MethodPut, "session-1", registrationPath("svc", "web-1"), fmt.Sprintf(`{"values":["10.0.0.1:80"],"version":%d}`, a.version()))
			require.Equal(t, http.StatusOK, b.status, "%v", b.doc)
			assert.Equal(t, a.version(), b.version())
		}
		b := web.put("session-1", "svc", "web-1", "10.0.0.1:81")
		assert.Greater(t, b.version(), a.version())
		c.eventually("the change is seen", sub.shows("10.0.0.1:81"))
		d := web.do(http.MethodDelete, "session-1", registrationPath("svc", "web-1"), "")
		require.Equal(t, http.StatusOK, d.status, "%v", d.doc)
		assert.Equal(t, true, d.doc["stored"])
		c.eventually("it is gone", sub.shows())
		again := web.do(http.MethodDelete, "session-1", registrationPath("svc", "web-1")+fmt.Sprintf("?version=%d", d.version()-1), "")
		assert.Equal(t, http.StatusOK, again.status)
		assert.Equal(t, d.version(), again.version())
		assert.Equal(t, http.StatusNotFound, web.do(http.MethodPost, "session-1", registrationPath("svc", "web-1")+fmt.Sprintf("/renew?version=%d", b.version()), "").status)
		assert.Len(t, sub.all(), 4, "empty, two values, and empty: renewals were not pushed")
		time.Sleep(time.Minute)
		assert.Empty(t, c.list("session-1:9603", "/v1/publishers"), "the tombstone is forgotten")
	})
}

func TestServices_EndOfTTLRemoves(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		sub, web := c.watch(c.client("reader"), "svc"), c.web()
		c.eventually("the list is empty", sub.shows())
		start := time.Now()
		a := web.do(http.MethodPut, "session-1", registrationPath("svc", "web-1"), `{"values":["a"],"ttlMs":2000}`)
		require.Equal(t, http.StatusOK, a.status, "%v", a.doc)
		web.put("session-1", "svc", "web-2", "b")
		c.eventually("the first one is gone", sub.shows("b"))
		assert.InDelta(t, 2, time.Since(start).Seconds(), 0.1)
		late := web.do(http.MethodPost, "session-1", registrationPath("svc", "web-1")+fmt.Sprintf("/renew?version=%d", a.version()), "")
		assert.Equal(t, http.StatusNotFound, late.status)
		assert.Equal(t, "not_found", late.doc["code"])
		c.eventually("all are gone", sub.shows())
		assert.InDelta(t, 10, time.Since(start).Seconds(), 0.1, "the default")
		web.put("session-1", "svc", "web-1", "a")
		c.eventually("it is back", sub.shows("a"))
	})
}

// A session dies. The client registers at another one within the grace of the data
// nodes, and no subscriber notices.
func TestServices_DeathOfSessionIsNotSeen(t *testing.T) {
	for name, version := range map[string]bool{"with the version": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, 2, func(t *testing.T, c *cluster) {
				sub, web := c.watch(c.client("reader", "session-2"), "svc"), c.web()
				a := web.put("session-1", "svc", "web-1", "a")
				c.eventually("it is seen", sub.shows("a"))
				seen := len(sub.all())
				kill(c, c.sessions["session-1"])
				time.Sleep(4 * time.Second)
				body := `{"values":["a"]}`
				if version {
					body = fmt.Sprintf(`{"values":["a"],"version":%d}`, a.version())
				}
				b := web.do(http.MethodPut, "session-2", registrationPath("svc", "web-1"), body)
				require.Equal(t, http.StatusOK, b.status, "%v", b.doc)
				assert.Equal(t, version, b.version() == a.version())
				for range 20 {
					time.Sleep(3 * time.Second)
					r := web.do(http.MethodPost, "session-2", registrationPath("svc", "web-1")+fmt.Sprintf("/renew?version=%d", b.version()), "")
					require.Equal(t, http.StatusOK, r.status, "%v", r.doc)
				}
				assert.Len(t, sub.all(), seen, "%v", sub.all())
			})
		})
	}
}

// A withdrawal or a change at another session hides the copy of the first one.
func TestServices_OtherSessionHidesOlderCopies(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		sub, web := c.watch(c.client("reader", "session-1"), "svc"), c.web()
		web.put("session-1", "svc", "web-1", "old")
		a := web.put("session-1", "svc", "web-2", "old-2")
		c.eventually("they are seen", sub.shows("old", "old-2"))
		time.Sleep(time.Millisecond) // between two sessions, the clock orders what has no version
		web.put("session-2", "svc", "web-1", "new")
		c.eventually("the new one is seen", sub.shows("new", "old-2"))
		d := web.do(http.MethodDelete, "session-2", registrationPath("svc", "web-2")+fmt.Sprintf("?version=%d", a.version()), "")
		require.Equal(t, http.StatusOK, d.status)
		assert.Equal(t, a.version()+1, d.version())
		c.eventually("the other is gone", sub.shows("new"))
		d = web.do(http.MethodDelete, "session-2", registrationPath("svc", "web-1"), "")
		require.Equal(t, http.StatusOK, d.status)
		c.eventually("both are gone", sub.shows())
		time.Sleep(time.Millisecond)
		web.put("session-1", "svc", "web-1", "newer")
		c.eventually("it is back", sub.shows("newer"))
		time.Sleep(time.Millisecond)
		d = web.do(http.MethodDelete, "session-2", registrationPath("svc", "web-1"), "") // which has the older tombstone
		require.Equal(t, http.StatusOK, d.status)
		c.eventually("all is gone", sub.shows())
		seen := len(sub.all())
		time.Sleep(time.Minute)
		assert.Len(t, sub.all(), seen)
	})
}

// Whatever the clocks of two sessions are, a registration that is answered as stored is
// seen: a version that another one hides is refused, or chosen again.
func TestServices_StoredIsNeverHidden(t *testing.T) {
	path := registrationPath("svc", "web-1")
	renewed := func(a answer) string { return path + fmt.Sprintf("/renew?version=%d", a.version()) }
	behind := func(f func(t *testing.T, c *cluster, web curl, sub *history)) func(*testing.T) {
		return func(t *testing.T) {
			bubble(t, 2, 0, func(t *testing.T, c *cluster) {
				for _, name := range []string{"session-1", "session-2"} {
					c.startSession(name, func(config *session.Config) {
						if name == "session-2" {
							config.Now = func() time.Time { return time.Now().Add(-20 * time.Second) }
						}
					})
				}
				c.settle()
				f(t, c, c.web(), c.watch(c.client("reader", "session-1"), "svc"))
			})
		}
	}
	staysSeen := func(t *testing.T, c *cluster, web curl, sub *history, a answer) {
		t.Helper()
		require.Equal(t, http.StatusOK, a.status, "%v", a.doc)
		for range 20 {
			require.True(t, sub.shows("new")(), "%v", sub.last())
			time.Sleep(3 * time.Second)
			b := web.do(http.MethodPost, "session-2", renewed(a), "")
			require.Equal(t, http.StatusOK, b.status, "%v", b.doc)
			require.Equal(t, true, b.doc["stored"])
		}
	}
	t.Run("put at both", behind(func(t *testing.T, c *cluster, web curl, sub *history) {
		a := web.put("session-1", "svc", "web-1", "old")
		b := web.put("session-2", "svc", "web-1", "new")
		assert.Greater(t, b.version(), a.version())
		c.eventually("it is seen", sub.shows("new"))
		staysSeen(t, c, web, sub, b)
	}))
	t.Run("withdrawn at one, put at the other", behind(func(t *testing.T, c *cluster, web curl, sub *history) {
		web.put("session-2", "svc", "web-1", "new")
		web.do(http.MethodDelete, "session-1", path, "")
		c.eventually("it is gone", sub.shows())
		b := web.put("session-2", "svc", "web-1", "new")
		c.eventually("it is seen", sub.shows("new"))
		staysSeen(t, c, web, sub, b)
	}))
	t.Run("withdrawn at the one behind", behind(func(t *testing.T, c *cluster, web curl, sub *history) {
		web.put("session-1", "svc", "web-1", "old")
		d := web.do(http.MethodDelete, "session-2", path, "")
		require.Equal(t, true, d.doc["stored"])
		c.eventually("it is gone", sub.shows())
	}))
	t.Run("a late put at the other", behind(func(t *testing.T, c *cluster, web curl, sub *history) {
		b := web.put("session-2", "svc", "web-1", "new")
		late := web.put("session-1", "svc", "web-1", "late")
		for range 7 { // in the end, only a tombstone is left of it
			time.Sleep(3 * time.Second)
			x := web.do(http.MethodPut, "session-2", path, fmt.Sprintf(`{"values":["new"],"version":%d}`, b.version()))
			require.Equal(t, http.StatusConflict, x.status, "%v", x.doc)
			assert.Equal(t, late.version(), x.version())
			assert.Contains(t, x.doc["detail"], fmt.Sprint(late.version()+1))
			x = web.do(http.MethodPost, "session-2", renewed(b), "")
			require.Equal(t, http.StatusConflict, x.status, "%v", x.doc)
			assert.Equal(t, late.version(), x.version())
		}
		b = web.do(http.MethodPut, "session-2", path, fmt.Sprintf(`{"values":["new"],"version":%d}`, late.version()+1))
		c.eventually("it is seen", sub.shows("new"))
		staysSeen(t, c, web, sub, b)
	}))
	t.Run("a low version at both", behind(func(t *testing.T, c *cluster, web curl, sub *history) {
		a := web.put("session-1", "svc", "web-1", "old")
		for _, at := range []string{"session-1", "session-2"} {
			x := web.do(http.MethodPut, at, path, fmt.Sprintf(`{"values":["new"],"version":%d}`, a.version()-1))
			require.Equal(t, http.StatusConflict, x.status, "%v", x.doc)
			assert.Equal(t, a.version(), x.version())
			x = web.do(http.MethodDelete, at, path+fmt.Sprintf("?version=%d", a.version()-2), "")
			require.Equal(t, http.StatusConflict, x.status, "%v", x.doc)
		}
		c.eventually("it stays", sub.shows("old"))
		b := web.do(http.MethodPut, "session-2", path, fmt.Sprintf(`{"values":["new"],"version":%d}`, a.version()+1))
		c.eventually("it is seen", sub.shows("new"))
		staysSeen(t, c, web, sub, b)
	}))
}

// The same values without a version are the same registration.
func TestServices_SameValuesAreRenewed(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		sub, web := c.watch(c.client("reader"), "svc"), c.web()
		a := web.put("session-1", "svc", "web-1", "a")
		for range 5 {
			time.Sleep(8 * time.Second)
			assert.Equal(t, a.version(), web.put("session-1", "svc", "web-1", "a").version())
		}
		assert.True(t, sub.shows("a")())
	})
}

// A request that waited in the buffers of a session while its client has withdrawn the
// registration at another one restores nothing.
func TestServices_LateRequestsRestoreNothing(t *testing.T) {
	bubble(t, 1, 2, func(t *testing.T, c *cluster) {
		sub, web := c.watch(c.client("reader", "session-2"), "svc"), c.web()
		a := web.put("session-1", "svc", "web-1", "a")
		b := web.put("session-2", "svc", "web-1", "b")
		d := web.do(http.MethodDelete, "session-2", registrationPath("svc", "web-1")+fmt.Sprintf("?version=%d", b.version()), "")
		require.Equal(t, http.StatusOK, d.status)
		c.eventually("it is gone", sub.shows())
		seen := len(sub.all())
		for _, late := range []int64{a.version(), b.version()} {
			x := web.do(http.MethodPut, "session-1", registrationPath("svc", "web-1"), fmt.Sprintf(`{"values":["late"],"version":%d}`, late))
			assert.Contains(t, []int{http.StatusOK, http.StatusConflict}, x.status, "%v", x.doc)
			web.do(http.MethodPost, "session-1", registrationPath("svc", "web-1")+fmt.Sprintf("/renew?version=%d", late), "")
			time.Sleep(time.Second)
		}
		x := web.do(http.MethodDelete, "session-2", registrationPath("svc", "web-1")+fmt.Sprintf("?version=%d", a.version()), "")
		assert.Equal(t, http.StatusOK, x.status, "it is withdrawn already")
		time.Sleep(time.Minute)
		assert.Len(t, sub.all(), seen, "%v", sub.all())
	})
}

// Many clients fall silent at once, which may be a fault of the session's network: they
// have one more lease to come back, and the pushes are guarded.
func TestServices_MassSilenceIsGuarded(t *testing.T) {
	bubble(t, 2, 1, func(t *testing.T, c *cluster) {
		sub := c.watch(c.client("reader"), "svc")
		var all []answer
		for i := range 8 {
			all = append(all, curl{c: c, host: fmt.Sprint("host-", i)}.put("session-1", "svc", fmt.Sprint("web-", i), fmt.Sprint("v", i)))
		}
		c.eventually("they are seen", func() bool { return len(sub.last()) == 8 })
		time.Sleep(15 * time.Second)
		for i, a := range all { // they come back with what they have
			x := curl{c: c, host: fmt.Sprint("host-", i)}
			b := x.do(http.MethodPut, "session-1", registrationPath("svc", fmt.Sprint("web-", i)), fmt.Sprintf(`{"values":["v%d"],"version":%d}`, i, a.version()))
			require.Equal(t, http.StatusOK, b.status, "%v", b.doc)
		}
		time.Sleep(5 * time.Second)
		full := false
		for _, d := range sub.all() {
			full = full || len(d.Values) == 8
			assert.True(t, !full || len(d.Values) == 8, "%v", sub.all())
		}
		time.Sleep(30 * time.Second)
		c.eventually("in the end they are removed", sub.shows())
	})
}

func TestServices_DrainingSessionNamesOthers(t *testing.T) {
	bubble(t, 1, 2, func(t *testing.T, c *cluster) {
		sub, web := c.watch(c.client("reader", "session-2"), "svc"), c.web()
		a := web.put("session-1", "svc", "web-1", "a")
		c.eventually("it is seen", sub.shows("a"))
		seen := len(sub.all())
		stopped := make(chan error)
		go func() { stopped <- c.sessions["session-1"].server.Shutdown(c.ctx) }()
		require.NoError(t, <-stopped)
		b := web.do(http.MethodPut, "session-2", registrationPath("svc", "web-1"), fmt.Sprintf(`{"values":["a"],"version":%d}`, a.version()))
		require.Equal(t, http.StatusOK, b.status, "%v", b.doc)
		for range 10 {
			time.Sleep(3 * time.Second)
			web.do(http.MethodPost, "session-2", registrationPath("svc", "web-1")+fmt.Sprintf("/renew?version=%d", b.version()), "")
		}
		assert.Len(t, sub.all(), seen, "%v", sub.all())
	})
}

// A registration belongs to the name of its token, and ids of others are not in its way.
func TestServices_RegistrationBelongsToItsToken(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, c *cluster) {
		c.startWith(newTokenFile(t), "session-1", "session-2")
		shop, bank, page := c.web(), c.web(), c.web()
		shop.token, bank.token, page.token = "p-token", "b-token", "r-token"
		a := shop.put("session-1", "svc", "web-1", "shop")
		time.Sleep(time.Millisecond) // on two sessions, a clock tells which request was later
		bank.put("session-1", "svc", "web-1", "bank")
		time.Sleep(time.Millisecond)
		bank.do(http.MethodDelete, "session-2", registrationPath("svc", "web-1"), "")
		assert.Equal(t, http.StatusNotFound, bank.do(http.MethodPost, "session-1", registrationPath("svc", "web-1")+fmt.Sprintf("/renew?version=%d", a.version()), "").status)
		path := registrationPath("svc", "web-1")
		assert.Equal(t, http.StatusForbidden, page.do(http.MethodPut, "session-1", path, `{"values":["a"]}`).status)
		assert.Equal(t, http.StatusForbidden, page.do(http.MethodDelete, "session-1", path, "").status)
		assert.Equal(t, http.StatusForbidden, page.do(http.MethodPost, "session-1", path+"/renew?version=1", "").status)
		assert.Equal(t, http.StatusUnauthorized, c.web().do(http.MethodPut, "session-1", path, `{"values":["a"]}`).status)
		assert.Equal(t, http.StatusUnauthorized, c.web().do(http.MethodGet, "session-1", "/v1/services/svc", "").status)
		assert.Equal(t, []string{"shop"}, page.do(http.MethodGet, "session-2", "/v1/services/svc", "").values())

		// The SDK's protocol does not reach it, also with the id, at a session that does
		// not know to whom it belongs.
		_, list := c.getWith("n-token", "session-1", "/v1/publishers?dataId=svc")
		r := c.rawWith("b-token", "bank", "session-2").hello("bank")
		defer r.end()
		for _, p := range list {
			m := r.answer(&wirev1.Publisher{Id: p["id"].(string), DataInfoId: svc, Version: conclave.MaxVersion, Withdrawn: true})
			require.Len(t, m.GetRefused(), 1)
			assert.Equal(t, string(wire.CodeForbidden), m.GetRefused()[0].GetCode())
		}
		assert.Equal(t, []string{"shop"}, page.do(http.MethodGet, "session-2", "/v1/services/svc", "").values())
	})
}

// While data is away, the answer reports that it does not have the registration.
func TestServices_StoredMeansDataHasIt(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		web := c.web()
		web.put("session-1", "svc", "web-1", "a")
		c.net.Pause("data-1")
		a := web.do(http.MethodPut, "session-1", registrationPath("svc", "web-2"), `{"values":["b"]}`)
		assert.Equal(t, http.StatusAccepted, a.status)
		assert.Equal(t, false, a.doc["stored"])
		b := web.do(http.MethodGet, "session-1", "/v1/services/other", "")
		assert.Equal(t, http.StatusServiceUnavailable, b.status)
		assert.NotEmpty(t, b.doc["sessions"])
		assert.Equal(t, "1", b.header.Get("Retry-After"))
		c.net.Resume("data-1")
		c.eventually("data has it", func() bool {
			return web.do(http.MethodPost, "session-1", registrationPath("svc", "web-2")+fmt.Sprintf("/renew?version=%d", a.version()), "").doc["stored"] == true
		})
	})
}

// A client with a short time to live is answered before it has to renew, whatever the
// answer waits for: data, or room beside what other clients have sent.
func TestServices_AnswersBeforeTheLeaseIsToBeRenewed(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		web := c.web()
		c.net.Pause("data-1")
		put := func(id string, ttl int) (status int, took time.Duration) {
			start := time.Now()
			a := web.do(http.MethodPut, "session-1", registrationPath("svc", id), fmt.Sprintf(`{"values":["a"],"ttlMs":%d}`, ttl))
			return a.status, time.Since(start)
		}
		for ttl, within := range map[int]int{1000: 250, 1500: 375, 2500: 500, 5000: 833, 10_000: 1500} {
			status, took := put(fmt.Sprint(ttl), ttl)
			assert.Equal(t, http.StatusAccepted, status)
			assert.InDelta(t, within, took.Milliseconds(), 50)
		}
		value := strings.Repeat("x", conclave.MaxValue)
		for i := range 5 {
			c.publish(c.client(fmt.Sprint("large-", i), "session-1"), "large", slices.Repeat([]string{value}, 30)...)
		}
		time.Sleep(time.Second)
		for ttl, within := range map[int]int{1001: 250, 9999: 1500} {
			status, took := put(fmt.Sprint(ttl), ttl)
			assert.Equal(t, http.StatusServiceUnavailable, status, "there is no room for a new one")
			assert.InDelta(t, within, took.Milliseconds(), 50)
		}
		c.net.Resume("data-1")
	})
}

// One address may hold as much by requests as by connections.
func TestServices_LimitsOfAnAddress(t *testing.T) {
	bubble(t, 1, 0, func(t *testing.T, c *cluster) {
		c.startSession("session-1", func(config *session.Config) { config.MaxAddressBytes = 20_000 })
		c.settle()
		web, n := c.web(), 0
		for ; n < 100; n++ {
			a := web.do(http.MethodPut, "session-1", registrationPath("svc", fmt.Sprint("web-", n)), `{"values":["x"]}`)
			if a.status == http.StatusTooManyRequests {
				assert.Equal(t, "limit_reached", a.doc["code"])
				break
			}
			require.Equal(t, http.StatusOK, a.status)
		}
		assert.Greater(t, n, 5)
		assert.Less(t, n, 20)
		curl{c: c, host: "other"}.put("session-1", "svc", "web-1", "x")
		time.Sleep(15 * time.Second)
		web.put("session-1", "svc", "web-1", "x") // there is room again
	})
}

// While its client renews, a registration has one lease, whatever it asks for.
func TestServices_ChangeOfTTLIsOneLease(t *testing.T) {
	bubble(t, 1, 0, func(t *testing.T, c *cluster) {
		c.startSession("session-1", func(config *session.Config) { config.MaxAddressBytes = 20_000 })
		c.settle()
		sub, web := c.watch(c.client("reader"), "svc"), c.web()
		put := func(ttl time.Duration) {
			t.Helper()
			a := web.do(http.MethodPut, "session-1", registrationPath("svc", "web-1"), fmt.Sprintf(`{"values":["a"],"ttlMs":%d}`, ttl.Milliseconds()))
			require.Equal(t, http.StatusOK, a.status, "%v", a.doc)
			require.EqualValues(t, ttl.Milliseconds(), a.doc["ttlMs"])
		}
		for i := range 100 {
			put(time.Duration(5+i%2) * time.Second)
		}
		web.put("session-1", "svc", "web-2", "b") // each lease would count for its address
		put(10 * time.Second)
		time.Sleep(8 * time.Second)
		assert.True(t, slices.Contains(sub.last(), "a"), "a longer one takes effect")
		start := time.Now()
		put(2 * time.Second)
		c.eventually("it is gone", func() bool { return !slices.Contains(sub.last(), "a") })
		assert.InDelta(t, 2, time.Since(start).Seconds(), 1.1, "a shorter one takes effect")
	})
}

// A session that is cut off from the data nodes sends its clients to another one, and
// requests that wait there end. Until a client has found one, its lease is renewed.
func TestServices_CutOffSessionSendsItsClientsAway(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		sub, web := c.watch(c.client("reader", "session-2"), "svc"), c.web()
		a, b := web.put("session-1", "svc", "web-1", "a"), web.put("session-1", "svc", "web-2", "b")
		c.eventually("they are seen", sub.shows("a", "b"))
		s := web.stream(t, "session-1", "/v1/services/svc/events", "")
		s.next()
		seen := len(sub.all())
		again := func(session, id, value string, of answer) answer {
			return web.do(http.MethodPut, session, registrationPath("svc", id), fmt.Sprintf(`{"values":[%q],"version":%d}`, value, of.version()))
		}
		c.net.Cut("session-1", "data-1")
		c.net.Cut("session-1", "data-2")
		cut := time.Now()
		refused := answer{}
		c.eventually("it is refused", func() bool {
			refused = again("session-1", "web-1", "a", a)
			if refused.status != http.StatusServiceUnavailable {
				assert.Equal(t, false, refused.doc["stored"])
			}
			return refused.status == http.StatusServiceUnavailable
		})
		assert.Less(t, time.Since(cut), 8*time.Second)
		assert.Equal(t, []any{"session-2:9603"}, refused.doc["sessions"])
		for open := true; open; {
			_, open = <-s.events
		}
		s.end()
		require.Equal(t, http.StatusServiceUnavailable, web.do(http.MethodGet, "session-1", "/v1/services/svc", "").status)
		for range 10 { // one finds the other session, and one does not
			require.Equal(t, http.StatusOK, again("session-2", "web-1", "a", a).status)
			require.Equal(t, http.StatusServiceUnavailable, again("session-1", "web-2", "b", b).status)
			time.Sleep(3 * time.Second)
		}
		left := c.list("session-1:9603", "/v1/publishers")
		assert.Len(t, left, 1, "%v", left)
		assert.Equal(t, "a", sub.last()[0])
		for _, d := range sub.all()[seen:] {
			assert.Contains(t, d.Values, "a")
		}
		c.net.Heal("session-1", "data-1")
		c.net.Heal("session-1", "data-2")
		c.eventually("it is taken again", func() bool { return again("session-1", "web-2", "b", b).status == http.StatusOK })
		again("session-2", "web-1", "a", a)
		c.eventually("both are seen", sub.shows("a", "b"))
	})
}

// A request that waited in the buffers of a suspended session is refused, whether the round
// of the leases runs before it or after.
func TestServices_SuspendedSessionRefusesWhatWaited(t *testing.T) {
	for name, leasesFirst := range map[string]bool{"leases first": true, "request first": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, 1, func(t *testing.T, c *cluster) {
				c.gated("session-2")
				c.settle()
				web, path := c.web(), registrationPath("svc", "web-1")
				a := web.put("session-2", "svc", "web-1", "a")
				c.gate.Hold("session-2", trace.Leasing)
				c.net.Pause("session-2")
				answers := make(chan answer, 2)
				send := func(method, path, body string) {
					b, err := web.try(method, "session-2", path, body)
					assert.NoError(t, err)
					answers <- b
				}
				go send(http.MethodPut, path, `{"values":["late"]}`)
				go send(http.MethodPost, path+fmt.Sprintf("/renew?version=%d", a.version()), "")
				time.Sleep(5 * time.Second)
				if leasesFirst {
					c.gate.Free("session-2")
					synctest.Wait()
				}
				c.net.Resume("session-2")
				for range 2 {
					b := <-answers
					assert.Equal(t, http.StatusServiceUnavailable, b.status, "%v", b.doc)
				}
				c.gate.Free("session-2")
				c.eventually("requests are taken again", func() bool {
					b := web.do(http.MethodPut, "session-2", path, `{"values":["a"]}`)
					return b.status == http.StatusOK && b.version() == a.version()
				})
			})
		})
	}
}

// A session that was suspended refuses requests for a while. That their clients fall silent
// then is evidence of a fault as before.
func TestServices_SuspensionIsNoReasonToLeave(t *testing.T) {
	bubble(t, 2, 1, func(t *testing.T, c *cluster) {
		c.gated("session-2")
		c.settle()
		sub := c.watch(c.client("reader", "session-1"), "svc")
		at := func(i int, a answer) answer {
			return curl{c: c, host: fmt.Sprint("host-", i)}.do(http.MethodPut, "session-2", registrationPath("svc", fmt.Sprint("web-", i)), fmt.Sprintf(`{"values":["v%d"],"version":%d}`, i, a.version()))
		}
		var all []answer
		for i := range 8 {
			all = append(all, curl{c: c, host: fmt.Sprint("host-", i)}.put("session-2", "svc", fmt.Sprint("web-", i), fmt.Sprint("v", i)))
		}
		c.eventually("they are seen", func() bool { return len(sub.last()) == 8 })
		c.gate.Hold("session-2", trace.Leasing)
		c.net.Pause("session-2")
		time.Sleep(3 * time.Second)
		c.net.Resume("session-2")
		for i, a := range all {
			require.Equal(t, http.StatusServiceUnavailable, at(i, a).status)
		}
		c.gate.Free("session-2")
		time.Sleep(15 * time.Second)
		for i, a := range all {
			require.Equal(t, http.StatusOK, at(i, a).status)
		}
		time.Sleep(5 * time.Second)
		full := false
		for _, d := range sub.all() {
			full = full || len(d.Values) == 8
			assert.True(t, !full || len(d.Values) == 8, "%v", sub.all())
		}
	})
}
