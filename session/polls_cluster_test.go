package session_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/wire"
)

// stream reads server-sent events.
type stream struct {
	t      *testing.T
	events chan event
	end    func()
}

type event struct{ id, kind, data string }

func (x curl) stream(t *testing.T, session, path, lastID string) *stream {
	ctx, cancel := context.WithCancel(x.c.ctx)
	transport := &http.Transport{DialContext: x.c.host(x.host).DialContext, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+x.c.sessions[session].server.Address()+path, nil)
	require.NoError(t, err)
	req.Header.Set("Last-Event-ID", lastID)
	res, err := (&http.Client{Transport: transport}).Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	s := &stream{t: t, events: make(chan event, 100)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(s.events)
		defer res.Body.Close()
		var e event
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "id":
				e.id = value
			case "event":
				e.kind = value
			case "data":
				e.data = value
			case "":
				if e.data != "" {
					s.events <- e
				}
				e = event{}
			}
		}
	}()
	s.end = func() { cancel(); <-done }
	return s
}

// next returns the values of the next event, and its id.
func (s *stream) next() (values []string, id string) {
	select {
	case e, open := <-s.events:
		require.True(s.t, open, "the stream has ended")
		require.Equal(s.t, "version", e.kind, "%v", e)
		var doc struct {
			Values []string
			Cursor string
		}
		require.NoError(s.t, json.Unmarshal([]byte(e.data), &doc))
		assert.Equal(s.t, e.id, doc.Cursor)
		return doc.Values, e.id
	case <-time.After(10 * time.Second):
		require.Fail(s.t, "no event")
		return nil, ""
	}
}

func (s *stream) none(d time.Duration) {
	select {
	case e, open := <-s.events:
		require.Fail(s.t, "an event", "%v %v", e, open)
	case <-time.After(d):
	}
}

// A stream has each version, and goes on after the last event that was read, also at
// another session.
func TestServices_StreamResumes(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		writer := c.client("writer", "session-1")
		pub := c.published(writer, "svc", "a")
		s := c.web().stream(t, "session-1", "/v1/services/svc/events", "")
		values, _ := s.next()
		assert.Equal(t, []string{"a"}, values)
		require.NoError(t, pub.Update([]string{"b"}))
		values, id := s.next()
		assert.Equal(t, []string{"b"}, values)
		s.none(time.Minute)
		s.end()

		same := c.web().stream(t, "session-2", "/v1/services/svc/events", id)
		same.none(time.Minute)
		same.end()
		require.NoError(t, pub.Update([]string{"c"}))
		require.NoError(t, pub.Stored(c.ctx))
		next := c.web().stream(t, "session-2", "/v1/services/svc/events", id)
		values, _ = next.next()
		assert.Equal(t, []string{"c"}, values)
		next.end()
		c.eventually("nothing is left at the sessions", func() bool {
			return len(c.list("session-1:9603", "/v1/subscribers"))+len(c.list("session-2:9603", "/v1/subscribers")) == 0
		})
	})
}

// A program that asks for the next version, again and again, at one session and the
// other, sees the last of each burst, at once.
func TestServices_LongPollMissesNothing(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		pub := c.published(c.client("writer", "session-1"), "svc", "v0")
		web := c.web()
		a := web.do(http.MethodGet, "session-2", "/v1/services/svc", "")
		require.Equal(t, []string{"v0"}, a.values())
		start := time.Now()
		none := web.do(http.MethodGet, "session-1", "/v1/services/svc?waitMs=20000&after="+a.doc["cursor"].(string), "")
		assert.Equal(t, http.StatusNoContent, none.status)
		assert.InDelta(t, 20, time.Since(start).Seconds(), 0.1)
		for i := 1; i <= 40; i++ {
			want, before := fmt.Sprint("v", i), i%3 == 0
			if before { // it changed while no request waited
				require.NoError(t, pub.Update([]string{want}))
				require.NoError(t, pub.Stored(c.ctx))
			}
			answers := make(chan answer, 1)
			go func() {
				b, err := web.try(http.MethodGet, fmt.Sprintf("session-%d", 1+i%2), "/v1/services/svc?waitMs=60000&after="+a.doc["cursor"].(string), "")
				assert.NoError(t, err)
				answers <- b
			}()
			if !before {
				time.Sleep(time.Duration(i%5) * 5 * time.Second)
				synctest.Wait()
				require.Empty(t, answers)
				require.NoError(t, pub.Update([]string{want}))
			}
			changed := time.Now()
			b := <-answers
			require.Equal(t, http.StatusOK, b.status, "%v", b.doc)
			assert.Less(t, time.Since(changed), 100*time.Millisecond)
			assert.Equal(t, []string{want}, b.values())
			assert.Greater(t, b.version(), a.version())
			a = b
		}
	})
}

// The data nodes are lost together with their copies. A program that has the list is
// not shown less before its publishers are back.
func TestServices_LongPollIsGuarded(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		web := c.web()
		c.published(c.client("writer"), "svc", "a")
		c.published(c.client("writer-2"), "svc", "b")
		a := web.do(http.MethodGet, "session-1", "/v1/services/svc", "")
		require.Len(t, a.values(), 2)
		kill(c, c.datas["data-1"])
		time.Sleep(time.Second)
		answers := make(chan answer, 1)
		go func() {
			b, err := web.try(http.MethodGet, "session-1", "/v1/services/svc?waitMs=30000&after="+a.doc["cursor"].(string), "")
			assert.NoError(t, err)
			answers <- b
		}()
		c.startData("data-2")
		b := <-answers
		if b.status == http.StatusOK {
			assert.Len(t, b.values(), 2)
		} else {
			assert.Equal(t, http.StatusNoContent, b.status)
		}
	})
}

// While pushes are stopped, a read is refused at once, and says so; one that has a list
// waits.
func TestServices_ReadSaysThatPushesAreStopped(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		web := c.web()
		a := web.do(http.MethodGet, "session-1", "/v1/services/svc", "")
		c.meta.setSwitch(wire.SwitchStopPush, "on")
		c.settle()
		start := time.Now()
		b := web.do(http.MethodGet, "session-1", "/v1/services/svc", "")
		assert.Equal(t, http.StatusServiceUnavailable, b.status)
		assert.Contains(t, b.doc["detail"], "stop-push")
		assert.Less(t, time.Since(start), time.Second)
		assert.Equal(t, http.StatusNoContent, web.do(http.MethodGet, "session-1", "/v1/services/svc?waitMs=2000&after="+a.doc["cursor"].(string), "").status)
	})
}

// A request that waits ends when its token is revoked.
func TestServices_WaitsEndWithTheirToken(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, c *cluster) {
		f := newTokenFile(t)
		c.startWith(f, "session-1")
		page := c.web()
		page.token = "r-token"
		a := page.do(http.MethodGet, "session-1", "/v1/services/svc", "")
		answers := make(chan answer, 1)
		go func() {
			b, err := page.try(http.MethodGet, "session-1", "/v1/services/svc?waitMs=60000&after="+a.doc["cursor"].(string), "")
			assert.NoError(t, err)
			answers <- b
		}()
		time.Sleep(time.Second)
		f.write(strings.Replace(tokenLines, "r-token", "r2-token", 1))
		b := <-answers
		assert.Equal(t, http.StatusUnauthorized, b.status, "%v", b.doc)
	})
}

// Programs that wait at a session which stops are answered so, and go on at another one.
func TestServices_WaitsEndWhenTheSessionStops(t *testing.T) {
	bubble(t, 1, 2, func(t *testing.T, c *cluster) {
		c.published(c.client("writer", "session-2"), "svc", "a")
		web := c.web()
		a := web.do(http.MethodGet, "session-1", "/v1/services/svc", "")
		s := web.stream(t, "session-1", "/v1/services/svc/events", a.doc["cursor"].(string))
		answers := make(chan answer, 1)
		go func() {
			b, err := web.try(http.MethodGet, "session-1", "/v1/services/svc?waitMs=60000&after="+a.doc["cursor"].(string), "")
			assert.NoError(t, err)
			answers <- b
		}()
		time.Sleep(time.Second)
		stopped := make(chan error, 1)
		go func() { stopped <- c.sessions["session-1"].server.Shutdown(c.ctx) }()
		b := <-answers
		assert.Equal(t, http.StatusServiceUnavailable, b.status)
		assert.Equal(t, []any{"session-2:9603"}, b.doc["sessions"], "%v", b.doc)
		_, open := <-s.events
		assert.False(t, open)
		s.end()
		require.NoError(t, <-stopped)
	})
}

// A session that stops with the whole cluster asks nobody to move, and yet its streams and
// answers end as HTTP expects, also those to clients of Consul: none is broken off.
func TestServices_StopOfClusterCompletesAnswers(t *testing.T) {
	bubble(t, 1, 0, func(t *testing.T, c *cluster) {
		c.startSession("session-1", withConsul)
		s := c.sessions["session-1"]
		c.settle()
		c.published(c.client("writer"), "svc", "10.0.0.1:80")
		web := c.web()
		cursor := web.do(http.MethodGet, "session-1", "/v1/services/svc", "").doc["cursor"].(string)
		_, index := web.found("session-1", "/v1/health/service/svc")
		type end struct {
			path   string
			status int
			text   []byte
			err    error
		}
		ends := make(chan end, 3)
		for session, path := range map[string]string{
			"session-1":      "/v1/services/svc/events",
			"session-1:9603": "/v1/services/svc?waitMs=60000&after=" + cursor,
			"session-1:8500": fmt.Sprint("/v1/health/service/svc?index=", index),
		} {
			go func() {
				res, err := web.request(c.ctx, http.MethodGet, session, path, "")
				if !assert.NoError(t, err, path) {
					ends <- end{path: path}
					return
				}
				defer res.Body.Close()
				text, err := io.ReadAll(res.Body)
				ends <- end{path, res.StatusCode, text, err}
			}()
		}
		time.Sleep(time.Second)
		require.Equal(t, http.StatusOK, c.post(s.server.Address(), "/v1/stopping", fmt.Sprintf(`{"incarnation": %q}`, c.ids[s.server].Incarnation)))
		require.NoError(t, s.server.Shutdown(c.ctx))
		for range 3 {
			e := <-ends
			assert.NoError(t, e.err, "%s: %s", e.path, e.text)
			assert.NotEmpty(t, e.text, e.path)
			want := http.StatusServiceUnavailable
			if strings.HasSuffix(e.path, "/events") {
				want = http.StatusOK // it had begun
			}
			assert.Equal(t, want, e.status, "%s: %s", e.path, e.text)
		}
	})
}

// A cursor that this cluster cannot have given, as one of before it was created again, is
// answered with the present list.
func TestServices_ForeignCursorBeginsAgain(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		c.published(c.client("writer"), "svc", "a")
		web := c.web()
		for _, cursor := range []string{"9007199254740991-0000000000000001-1", "9999999999999999-0000000000000001-1"} {
			a := web.do(http.MethodGet, "session-1", "/v1/services/svc?waitMs=9000&after="+cursor, "")
			require.Equal(t, http.StatusOK, a.status, "%v", a.doc)
			assert.Equal(t, []string{"a"}, a.values())
			s := web.stream(t, "session-1", "/v1/services/svc/events", cursor)
			values, id := s.next()
			assert.Equal(t, []string{"a"}, values)
			assert.Equal(t, a.doc["cursor"], id)
			s.end()
		}
		c.eventually("nothing is left", func() bool { return len(c.list("session-1:9603", "/v1/subscribers")) == 0 })
	})
}
