package devdb

import (
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	gmsfunction "github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// For the parser's literal the replacement behaves like the engine's function.
func TestUTCTimestamp_EqualsTheEngines(t *testing.T) {
	three := expression.NewLiteral(int8(3), types.Int8)
	ours, err := newUTCTimestamp(three)
	require.NoError(t, err)
	require.IsType(t, &utcTimestamp{}, ours)
	theirs, err := gmsfunction.NewUTCTimestamp(three)
	require.NoError(t, err)
	assert.Equal(t, theirs.String(), ours.String(), "the file contains it as a column's default")
	assert.Equal(t, theirs.Type(), ours.Type())
	ctx := sql.NewEmptyContext()
	want, err := theirs.Eval(ctx, nil)
	require.NoError(t, err)
	got, err := ours.Eval(ctx, nil)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}
