package sofa

import (
	"bytes"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "conclave/internal/bubble"
	wirev1 "conclave/wire/v1"
)

// registerFrame is a register of a client, with these fields.
func registerFrame(kind Kind, fields string, values ...any) []byte {
	o := &Object{classOf(string(kind), "registId dataId eventType version "+fields), append([]any{"id", "svc", "REGISTER", int64(1)}, values...)}
	return Frame{Type: Request, Command: request, ID: 1}.with(o).Append(nil)
}

// receiving returns a stream that has received the hello and the first register of a client,
// which has sent frames after them. What it is sent is in out.
func receiving(t *testing.T, c Config, frames ...[]byte) (s *Stream, out *answers) {
	out = &answers{}
	c.In, c.Conn = bytes.NewReader(append(registerFrame(Subscriber, ""), bytes.Join(frames, nil)...)), out
	s = NewStream(c)
	_, registers, err := s.Await()
	require.NoError(t, err)
	require.True(t, registers)
	for range 2 { // the hello, and the first register
		_, err = s.Receive()
		require.NoError(t, err)
	}
	return s, out
}

// answers is a connection that keeps what is sent.
type answers struct {
	net.Conn
	frames []Frame
}

func (a *answers) Write(b []byte) (int, error) {
	f, err := ReadFrame(strings.NewReader(string(b)))
	a.frames = append(a.frames, f)
	return len(b), err
}
func (a *answers) SetDeadline(time.Time) error      { return nil }
func (a *answers) SetWriteDeadline(time.Time) error { return nil }

// last returns a field of the last answer.
func (a *answers) last(t *testing.T, name string) any {
	v, err := Decode(a.frames[len(a.frames)-1].Content)
	require.NoError(t, err)
	return get[any](v.(*Object), name)
}

// A content of some hundred kilobytes may name a large value any number of times.
func TestStream_DoesNotCopyWhatOneValueIsNamedFor(t *testing.T) {
	boxes, box := &List{}, &Object{dataBox, []any{strings.Repeat("x", 60_000)}}
	for range 20_000 {
		boxes.Values = append(boxes.Values, box)
	}
	frame := registerFrame(Publisher, "zone dataList", "RZ1", boxes)
	require.Less(t, len(frame), 200_000)
	s, out := receiving(t, Config{}, frame)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, err := s.Receive()
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	assert.Nil(t, m)
	assert.Equal(t, true, out.last(t, "refused"))
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100<<20), "of 1,200 MB")
}

func TestStream_LimitsWhatItKeepsOfAClient(t *testing.T) {
	another := strings.NewReplacer("\x02id", "\x03id2")
	frame := registerFrame(Subscriber, "scope", "global")
	second := []byte(another.Replace(string(frame)))
	second[21]++ // the content is longer by one byte
	s, out := receiving(t, Config{Subscriptions: 1}, frame, second, registerFrame(Subscriber, "scope", "any"), registerFrame(Subscriber, "zone", "RZ1"))
	m, err := s.Receive()
	require.NoError(t, err)
	assert.Equal(t, "id", m.GetSubscribe()[0].GetId(), "it is known")
	for range 3 {
		m, err = s.Receive()
		require.NoError(t, err)
		assert.Nil(t, m)
	}
	require.Len(t, out.frames, 3)
	assert.Equal(t, true, out.last(t, "refused"), "a list is encoded for each zone")
	out.frames = out.frames[:2]
	assert.Equal(t, true, out.last(t, "refused"), "and for each scope")
	out.frames = out.frames[:1]
	assert.Equal(t, []any{false, false}, []any{out.last(t, "success"), out.last(t, "refused")}, "it may come again")
}

// A list for one of two subscribers leaves the other's failure to be repeated.
func TestStream_APushToOneDoesNotHideTheFailureOfAnother(t *testing.T) {
	s := NewStream(Config{Conn: &answers{}})
	s.subscribers = map[string]*subscriber{"a": {}, "b": {}}
	push := func(ids ...string) {
		s.frames(&wirev1.ServerMessage{Pushes: []*wirev1.Push{{Subscriptions: ids, Datum: &wirev1.Datum{}}}})
	}
	push("a", "b")
	push("a")
	s.answered(Frame{Type: Response, ID: 1, Status: statusException})
	assert.Len(t, s.again, 1)
	assert.Contains(t, s.again, "b")
}

// A client that has registered nothing, and reads nothing, leaves after a while, too.
func TestStream_EndsIfAClientDoesNotReadBeforeItRegisters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, session := net.Pipe()
		defer client.Close()
		go func() { _, _ = client.Write(Frame{Type: Request, ID: 1, Timeout: -1}.Append(nil)) }()
		_, _, err := NewStream(Config{In: session, Conn: session}).Await()
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
	})
}

// One that has registered nothing stays for a while after each frame.
func TestStream_AwaitsTheFirstRegisterAfterEachFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, session := net.Pipe()
		defer client.Close()
		s := NewStream(Config{In: session, Conn: session})
		go func() {
			time.Sleep(idle - time.Second)
			_, _ = client.Write(Frame{Type: OneWay, Timeout: -1}.Append(nil))
		}()
		_, registers, err := s.Await()
		require.NoError(t, err)
		assert.False(t, registers)
		began := time.Now()
		_, _, err = s.Await()
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.Equal(t, idle, time.Since(began))
	})
}
