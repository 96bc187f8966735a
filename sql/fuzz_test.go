package sql_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	conclavesql "conclave/sql"
)

// FuzzOpen opens arbitrary DSNs, which connects to nothing. An error has the
// form of a DSN and not the password in it.
func FuzzOpen(f *testing.F) {
	for _, dsn := range []string{
		"root:PASSWORD@tcp(db:3306)/conclave", "root:PASSWORD@tcp(db:3306)/conclave?tls=PASSWORD&timeout=1s", "mysql://root:PASSWORD@db",
		"root:PASSWORD@unix(/tmp/s)/c?charset=x,y", "@/", "PASSWORD", "a:PASSWORD@/b?x=%zz",
		"root:PASSWORD@tcp(db:3306)/PASSWORD0",
	} {
		f.Add(dsn)
	}
	f.Fuzz(func(t *testing.T, dsn string) {
		const password = "PASSWORD"
		db, err := conclavesql.Open(dsn, conclavesql.Options{})
		if err != nil {
			require.ErrorIs(t, err, conclavesql.ErrBadDSN)
			assert.NotContains(t, err.Error(), password)
			return
		}
		if strings.HasPrefix(dsn, "root:"+password+"@") && strings.Count(dsn, password) == 1 {
			assert.NotContains(t, db.Addr(), password)
		}
		assert.NoError(t, db.Close())
	})
}
