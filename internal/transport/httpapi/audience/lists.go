package audience

import (
	"context"
	"errors"
	"io"

	"lksms/gen/api"
	"lksms/internal/audience/sheet"
	"lksms/internal/dispatch/segment"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
)

const (
	previewRows = 10
	maxPreview  = 100 // maximum number of displayed characters of a value
)

// PreviewList shows the columns and first rows of an uploaded list.
func (h *Handlers) PreviewList(ctx context.Context, _ api.PreviewListRequestObject) (api.PreviewListResponseObject, error) {
	fields, form, err := gate.FormOf[api.ListPreviewRequest](ctx)
	if err != nil {
		return nil, err
	}
	file, err := h.services.Uploads.Open(ctx, form.File.ID)
	if err != nil {
		return nil, err
	}
	list, err := sheet.Open(ctx, file, sheet.Options{Sheet: optional.Value(fields.Sheet)})
	if err != nil {
		return nil, err
	}
	encoding, isDoubtful := list.Encoding()
	preview := api.ListPreview{
		Columns: list.Columns(), Rows: []api.ListRow{}, Encoding: optional.NonZero(encoding), EncodingWarning: encodingWarning(ctx, isDoubtful),
	}
	err = addPreview(&preview, list)
	return api.PreviewList200JSONResponse{Code: convert.OK, Message: convert.Success, Data: preview}, errors.Join(err, list.Close())
}

// encodingWarning returns a warning about a list whose encoding was guessed and is possibly wrong. It returns nil if isDoubtful is false.
func encodingWarning(ctx context.Context, isDoubtful bool) *string {
	if !isDoubtful {
		return nil
	}
	return &gate.Of(ctx).Text.DoubtfulEncoding
}

// addPreview adds the first rows of a list to its preview.
func addPreview(preview *api.ListPreview, list *sheet.Reader) error {
	for range previewRows {
		row, err := list.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		shown := api.ListRow{Row: row.No, Cells: []string{}, Lossy: []string{}, Extra: row.Extra}
		for i, cell := range row.Cells {
			shown.Cells = append(shown.Cells, segment.Shortened(cell.Text, maxPreview))
			if cell.Lossy {
				shown.Lossy = append(shown.Lossy, preview.Columns[i])
			}
		}
		preview.Rows = append(preview.Rows, shown)
	}
	return nil
}
