package sheet_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"

	"lksms/internal/audience/sheet"
)

// named is a file with an encoding that its owner named.
type named struct {
	sheet.File
	encoding string
}

func (n named) Encoding() string { return n.encoding }

// readList returns the values of a list in one line, the encoding of the list, and whether this encoding is doubtful.
func readList(t *testing.T, file sheet.File) (values, name string, isDoubtful bool) {
	t.Helper()
	r, err := sheet.Open(t.Context(), file, sheet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	name, isDoubtful = r.Encoding()
	var all []string
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			return strings.Join(all, " "), name, isDoubtful
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, cell := range row.Cells {
			all = append(all, cell.Text)
		}
	}
}

func inEncoding(t *testing.T, in encoding.Encoding, text string) sheet.File {
	t.Helper()
	content, err := in.NewEncoder().String(text)
	if err != nil {
		t.Fatal(err)
	}
	return sheet.Bytes("list.csv", []byte(content))
}

// A list in Windows-1252 that is also valid GB18030 is read as GB18030, and the encoding is reported as doubtful. The owner of the list can name the right
// encoding.
func TestALatinListThatIsValidGB18030IsReportedAsDoubtful(t *testing.T) {
	t.Parallel()
	for language, names := range map[string][]string{
		"German":  {"Müller", "Schäfer", "Köhler", "Krüger", "Schröder", "Jörg Lange", "Größer"},
		"French":  {"Hélène", "François", "Frédéric Lefèvre", "Benoît", "Gaëlle", "Thérèse"},
		"Spanish": {"Muñoz", "Gutiérrez", "Gómez", "Fernández", "Álvarez", "Íñigo", "Peña"},
		"one":     {"Müller"},
	} {
		content := "phone,name\n"
		for _, name := range names {
			content += "13800138000," + name + "x\n" // no name ends with an accented letter, so that the text is valid GB18030
		}
		file := inEncoding(t, charmap.Windows1252, content)
		read, name, isDoubtful := readList(t, file)
		if name != "GB18030" || !isDoubtful || strings.Contains(read, names[0]) {
			t.Errorf("%s is read as %s, doubtful: %t: %s", language, name, isDoubtful, read)
		}
		read, name, isDoubtful = readList(t, named{file, "Windows-1252"})
		if name != "Windows-1252" || isDoubtful || !strings.Contains(read, names[len(names)-1]) {
			t.Errorf("%s is read as %s, doubtful: %t: %s", language, name, isDoubtful, read)
		}
	}
}

// A short list is doubtful even if only half of its names have Latin letters with accents.
func TestAShortLatinListIsReportedAsDoubtful(t *testing.T) {
	t.Parallel()
	file := inEncoding(t, charmap.Windows1252, "phone,name\n13800138000,Jürgen\n13900139000,Höß\n")
	if read, name, isDoubtful := readList(t, file); name != "GB18030" || !isDoubtful {
		t.Errorf("read as %s, doubtful: %t: %s", name, isDoubtful, read)
	}
}

// A list in another encoding that is also valid GB18030 is doubtful if it has enough letters.
func TestAListOfAnotherAlphabetIsReportedAsDoubtful(t *testing.T) {
	t.Parallel()
	for what, list := range map[string]struct {
		in    encoding.Encoding
		names []string
	}{
		"Russian in Windows-1251": {charmap.Windows1251, []string{"Иван Петров", "Анна Смирнова", "Сергей Кузнецов"}},
		"Russian in KOI8-R":       {charmap.KOI8R, []string{"Иван Петров", "Анна Смирнова", "Сергей Кузнецов"}},
		"Korean in EUC-KR":        {korean.EUCKR, []string{"김철수", "이영희", "박지훈", "최민서", "정하윤", "강도현", "조서연", "장예준", "임수빈", "한지우", "오세훈"}},
		"Japanese in Shift JIS":   {japanese.ShiftJIS, []string{"田中太郎", "すずき花子", "佐藤", "高橋健一", "渡辺直美", "いとう さくら", "山本大輔", "中村結衣"}},
	} {
		content := "phone,name\n"
		for _, name := range list.names {
			content += "+4915112345678," + name + "\n"
		}
		if read, name, isDoubtful := readList(t, inEncoding(t, list.in, content)); name != "GB18030" || !isDoubtful {
			t.Errorf("%s is read as %s, doubtful: %t: %s", what, name, isDoubtful, read)
		}
	}
}

// A list that is not valid GB18030 is refused. It can be read if its owner names the encoding.
func TestTheNamedEncodingIsUsedForAList(t *testing.T) {
	t.Parallel()
	file := inEncoding(t, charmap.Windows1252, "phone,name\n13800138000,Zoé Lambert\n13900139000,Weiß GmbH\n13700137000,Núñez\n")
	if r, err := sheet.Open(t.Context(), file, sheet.Options{}); err == nil {
		if _, err = r.Next(); err == nil {
			t.Error("a list that is no text was read")
		}
		r.Close()
	}
	if read, name, isDoubtful := readList(t, named{file, "Windows-1252"}); read != "13800138000 Zoé Lambert 13900139000 Weiß GmbH 13700137000 Núñez" || isDoubtful {
		t.Errorf("read as %s: %s", name, read)
	}
}

// A Chinese list in GBK is not doubtful, even if it contains rare characters whose second byte is a letter, Latin words, or only one name. A list in UTF-8 is
// never doubtful.
func TestTheEncodingOfAChineseListIsUnambiguous(t *testing.T) {
	t.Parallel()
	for what, content := range map[string]string{
		"names":           "手机号,姓名\n13800138000,张三\n13900139000,李四\n13700137000,欧阳娜娜\n",
		"rare characters": "phone,name\n13800138000,朱镕基\n13900139000,陶喆\n13700137000,李堃\n13600136000,王珺\n13500135000,赵昞\n",
		"texts":           "phone,text\n13800138000,您的VIP卡A区B座已开通，请回复TD退订\n13900139000,iPhone手机壳x2件\n",
		"one name":        "phone,name\n13800138000,镕\n13800138001,张伟\n",
		"repeated words":  "phone,title\n13800138000,先生\n13900139000,先生\n13700137000,男\n13600136000,女\n13600136001,客户\n",
		"wide digits":     "手机号\n１３８００１３９０００\n１３９１２３４５６７８\n１３７６５４３２１０９\n",
		"early bytes":     "phone,name\n13800138000,李明\n13900139000,陈国强\n13700137000,刘海波\n13600136000,高建华\n",
		"traditional 2":   "phone,name\n13800138000,陳佳雲\n13900139000,李敏豪\n13700137000,戴輝龍\n13600136000,張惠俊\n13500135000,林家豪\n",
		"traditional":     "phone,name\n13800138000,陳綺貞\n13900139000,龔詩嘉\n",
	} {
		read, name, isDoubtful := readList(t, inEncoding(t, simplifiedchinese.GBK, content))
		if name != "GB18030" || isDoubtful {
			t.Errorf("%s are read as %s, doubtful: %t: %s", what, name, isDoubtful, read)
		}
		if read, name, isDoubtful = readList(t, sheet.Bytes("list.csv", []byte(content))); name != "UTF-8" || isDoubtful {
			t.Errorf("%s in UTF-8 are read as %s, doubtful: %t: %s", what, name, isDoubtful, read)
		}
	}
	if read, name, isDoubtful := readList(t, sheet.Bytes("list.csv", []byte("phone,name\n13800138000,Müller\n"))); name != "UTF-8" || isDoubtful {
		t.Errorf("read as %s, doubtful: %t: %s", name, isDoubtful, read)
	}
}

// A byte order mark overrides the encoding that the owner names.
func TestAByteOrderMarkOverridesANamedEncoding(t *testing.T) {
	t.Parallel()
	file := named{sheet.Bytes("list.csv", []byte("\xEF\xBB\xBFname\nMüller\n")), "Windows-1252"}
	if read, name, _ := readList(t, file); name != "UTF-8" || read != "Müller" {
		t.Errorf("read as %s: %s", name, read)
	}
}
