package contact_test

import (
	"fmt"
	"strings"
	"testing"

	"lksms/internal/audience/contact"
	"lksms/internal/audience/upload"
	"lksms/internal/testkit/apptest"
)

// Companies take turns, and so do the imports of a company. An import that is created during a long run waits for one round, not for the end of the run.
func TestCompaniesWithImportsTakeTurns(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("beta", 1)
	beta := apptest.Scan[int64](b, "SELECT id FROM companies WHERE company_no = 'beta'")
	names := map[int64]string{}
	add := func(name string, company int64, rows int) contact.ImportRow {
		var list strings.Builder
		list.WriteString("user_id\n")
		for i := range rows {
			fmt.Fprintf(&list, "%s-%d\n", name, i)
		}
		u, err := b.App.Uploads.Receive(t.Context(), strings.NewReader(list.String()), upload.Meta{CompanyID: company, SubmittedBy: "admin", Name: "list.csv"})
		if err != nil {
			t.Fatal(err)
		}
		i, err := b.App.Contacts.StartImport(t.Context(), contact.ImportRequest{CompanyID: company, Upload: u, By: "admin"})
		if err != nil {
			t.Fatal(err)
		}
		names[i.ID] = name
		return i
	}
	first := add("first", 1, 5001)
	add("second", 1, 5001)
	later := add("beta", beta, 1)
	portions := b.RecordUpdates("contact_imports", "row_no")
	b.Exec("UPDATE contact_imports SET status = 'finished', finished_at = now(), upload_id = NULL WHERE id = $1", later.ID)
	b.OnUpdate("contact_imports", "row_no", fmt.Sprintf(
		"UPDATE contact_imports SET status = 'running', finished_at = NULL, upload_id = %d WHERE id = %d AND rows = 0 AND NEW.id = %d AND NEW.rows = 5000", *later.UploadID, later.ID, first.ID))
	if _, err := b.App.Contacts.Import(t.Context()); err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, id := range portions() {
		order = append(order, names[id])
	}
	if got, want := strings.Join(order, " "), "first second beta first second"; got != want {
		t.Errorf("portions of %s, want %s", got, want)
	}
}
