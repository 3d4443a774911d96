package stranger

import "strconv"

// GSM contains the characters of the GSM 7-bit default alphabet and its extension table, except white space, which programs change at the ends of a text.
const GSM = "@£$¥èéùìòÇØøÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ!\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà^{}\\[~]|€"

// Texts returns 200 different texts of one to ten parts: every character of GSM, UCS-2, and surrogate pairs, in lengths around the limits of parts. Each alphabet has each length.
func Texts() (all []string) {
	alphabets := [][]rune{[]rune(GSM), []rune("您的验证码快递已到é"), []rune("短信😀通知😁")}
	lengths := []int{1, 2, 3, 35, 66, 67, 69, 70, 71, 133, 134, 135, 152, 153, 154, 159, 160, 161, 200, 305, 306, 307, 330, 400, 459, 460, 500}
	for i := range 200 {
		alphabet := alphabets[i%len(alphabets)]
		text := []rune(strconv.Itoa(i)) // so that no text is there twice
		for k := len(text); k < lengths[i/len(alphabets)%len(lengths)]; k++ {
			text = append(text, alphabet[(i*7+k)%len(alphabet)])
		}
		all = append(all, string(text))
	}
	return all
}
