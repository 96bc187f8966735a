package journal_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/console/journal"
)

var header = journal.Header{Name: "storm-7", Text: "at 1s kill leader", Cluster: testbed.Size{Metas: 3, Seed: 7}, HasEvents: true, Began: time.Unix(1000, 5).UTC()}

// fill sets every field of a value, so that a field that is added and not recorded
// is found.
func fill(r *rand.Rand, v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(header.Began.Add(time.Duration(r.Int64N(1e12)))))
	case v.Type() == reflect.TypeFor[error]():
		v.Set(reflect.ValueOf(fmt.Errorf("failed %d", r.IntN(9))))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(r, v.Field(i))
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+r.IntN(3), 3))
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case v.Kind() == reflect.String:
		v.SetString(fmt.Sprintf("text %d", r.IntN(50)))
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(1 + r.Int64N(3))
	case v.CanUint():
		v.SetUint(1 + r.Uint64N(1<<40))
	}
}

func filled[T any](r *rand.Rand) *T {
	v := new(T)
	fill(r, reflect.ValueOf(v).Elem())
	return v
}

// sample returns records of all kinds, in order.
func sample(n int) (out []journal.Record) {
	r := rand.New(rand.NewPCG(1, 2))
	at := -time.Second
	entry := func(e check.Entry) journal.Record { e.At = at; return journal.Record{At: at, Entry: &e} }
	for i := range n {
		at += time.Duration(r.IntN(5)) * time.Millisecond
		switch i % 8 {
		case 0:
			if i%64 == 0 {
				out = append(out, journal.Record{At: at, State: filled[testbed.Snapshot](r)})
				continue
			}
			out = append(out, entry(check.Entry{Event: &trace.Claim{Kind: trace.Led, Term: uint64(i)}}))
		case 1:
			out = append(out, entry(check.Entry{Event: filled[trace.Claim](r)}))
		case 2:
			out = append(out, entry(check.Entry{Fault: filled[check.Fault](r)}))
		case 3:
			out = append(out, entry(check.Entry{Fault: &check.Fault{Action: testbed.Action{Verb: testbed.Kill, Node: "meta-1"}}}))
		case 4:
			out = append(out, entry(check.Entry{Op: filled[check.Op](r)}))
		case 5:
			out = append(out, entry(check.Entry{Observed: filled[check.Observation](r)}))
		case 6:
			out = append(out, entry(check.Entry{Usage: filled[testbed.Usage](r)}))
		case 7:
			m := filled[journal.Message](r)
			m.Kind, m.Fate = journal.Transport, journal.Lost
			out = append(out, journal.Record{At: at, Message: m})
		}
	}
	return out
}

// written returns a complete file.
func written(t testing.TB, records []journal.Record, result journal.Result) []byte {
	var file bytes.Buffer
	require.NoError(t, (&journal.Recording{Header: header, Records: records, Result: result}).Write(&file))
	return file.Bytes()
}

func open(b []byte) (*journal.Recording, error) {
	return journal.Open(bytes.NewReader(b))
}

// errorsAsText makes records comparable after they were read.
func errorsAsText(r journal.Record) string {
	text := fmt.Sprintf("%v %+v %+v", r.At, r.Message, r.State)
	if e := r.Entry; e != nil {
		text += fmt.Sprintf(" %v %+v %+v %+v %+v %+v", e.At, e.Event, e.Fault, e.Op, e.Observed, e.Usage)
	}
	return text
}

func TestOpen_ReturnsWhatWasWritten(t *testing.T) {
	records := sample(8000)
	result := journal.Result{Failures: []string{"expected a leader"}, Verdicts: []check.Verdict{
		{ID: "I1", Says: "one leader", Checks: 3, Shown: "2", Violations: []check.Violation{{At: records[900].At, What: "two leaders", Evidence: []string{"a", "b"}}}},
	}}
	r, err := open(written(t, records, result))
	require.NoError(t, err)
	assert.Equal(t, header, r.Header)
	assert.Equal(t, result, r.Result)
	require.Len(t, r.Records, len(records))
	from, to := r.Span()
	assert.Equal(t, records[0].At, from)
	assert.Equal(t, records[len(records)-1].At, to)
	for n, got := range r.Records {
		if errorsAsText(records[n]) != errorsAsText(got) { // a comparison of its own: assert.Equal takes too long for so many
			require.Equal(t, errorsAsText(records[n]), errorsAsText(got), "record %d", n)
		}
	}
}

func TestSearch_FindsTimes(t *testing.T) {
	records := sample(8000)
	r, err := open(written(t, records, journal.Result{}))
	require.NoError(t, err)
	for n := 0; n < len(records); n += 37 {
		want := slices.IndexFunc(records, func(x journal.Record) bool { return x.At >= records[n].At })
		require.Equal(t, want, r.Search(records[n].At))
	}
	assert.Equal(t, len(records), r.Search(time.Hour))
	assert.Zero(t, r.Search(-time.Hour))
}

func TestOpen_AnEmptyRun(t *testing.T) {
	r, err := open(written(t, nil, journal.Result{}))
	require.NoError(t, err)
	assert.Empty(t, r.Records)
	assert.Zero(t, r.Search(0))
}

func TestOpen_SaysWhatIsWrong(t *testing.T) {
	good := written(t, sample(3000), journal.Result{})
	damaged := slices.Clone(good)
	damaged[len(damaged)/2] ^= 0x40
	wrongSum := slices.Clone(good)
	wrongSum[len(wrongSum)-5] ^= 0x40
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "not a recording of conclave"},
		{"another file", []byte(strings.Repeat("at 1s kill leader\n", 10)), "not a recording of conclave"},
		{"another file in gzip", zipped(t, "at 1s kill leader\n"), "not a recording of conclave"},
		{"the version before", zipped(t, `{"recording": 4}`), "its format is version 4; this program reads version 5"},
		{"another version", zipped(t, `{"recording": 65}`), "its format is version 65; this program reads version 5"},
		{"cut short", good[:len(good)/2], "cut short"},
		{"cut short by its sum", good[:len(good)-3], "cut short"},
		{"without an end", zipped(t, `{"recording": 5}`+"\n"+`{"at": 1, "message": {}}`), "cut short"},
		{"damaged", damaged, "damaged"},
		{"with a wrong sum", wrongSum, "it is damaged: its checksum is wrong"},
		{"of the version before", []byte("conclave recording\n\x01\x02{}"), "not a recording of conclave"},
		{"not in order", zipped(t, `{"recording": 5}`+"\n"+`{"at": 1, "message": {}} {"at": 0, "message": {}} {"result": {}}`), "record 1: it is damaged: it has nothing, or is not in order"},
		{"nothing", zipped(t, `{"recording": 5}`+"\n"+`{"at": 1} {"result": {}}`), "record 0: it is damaged: it has nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := open(c.file)
			assert.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, "read a recording: ")
		})
	}
}

func zipped(t testing.TB, text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

func TestWrite_RefusesWhatCannotBeRead(t *testing.T) {
	m := &journal.Message{}
	for want, records := range map[string][]journal.Record{
		"comes after": {{At: 2, Message: m}, {At: 1, Message: m}},
		"has nothing": {{At: time.Second}},
	} {
		assert.ErrorContains(t, (&journal.Recording{Header: header, Records: records}).Write(&bytes.Buffer{}), want)
	}
	assert.ErrorContains(t, (&journal.Recording{Header: header}).Write(full{}), "no space")
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

// FuzzOpen reads any bytes: it ends, without a panic, and what it returns can be
// asked for.
func FuzzOpen(f *testing.F) {
	f.Add(written(f, sample(50), journal.Result{}))
	f.Add(written(f, nil, journal.Result{Verdicts: []check.Verdict{{ID: "I1", Violations: []check.Violation{{What: "x"}}}}}))
	f.Add(zipped(f, `{"recording": 5} {"at": 1, "op": {"Kind": "push"}} {"result": {}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := open(b)
		if err != nil {
			return
		}
		r.Search(0)
		r.Span()
	})
}
