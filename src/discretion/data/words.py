"""What column names say: words for roles in English, Spanish, Catalan, Italian, Portuguese, German and French."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import cache

from discretion.data.schema import Role

_IDENTIFIERS = """
    name names fullname firstname lastname surname forename givenname familyname maidenname username nickname
    nombre nombres apellido apellidos nom noms cognom cognoms prenom nome cognome nomi sobrenome apelido vorname
    nachname familienname
    passport pasaporte passaport passaporto passaporte reisepass passeport licence license licenceplate plate
    phone telephone mobile fax telefono telefon telefono1 movil mobil cellulare telemovel handy tel cell
    email mail correo correu posta emailaddress
    address street direccion domicilio adreca indirizzo endereco morada adresse anschrift strasse rue calle carrer via
    iban bic account accountnumber cuenta conto conta konto kontonummer compte creditcard cardnumber tarjeta
    ip ipaddress url website mac imei deviceid cookie
    remark remarks comment comments notes freetext notiz notizen vermerk bemerkung bemerkungen anmerkung
    anmerkungen kommentar freitext
    observaciones observacions comentario comentari commentaire remarque osservazioni observacoes
    policennummer aktenzeichen ausweisnummer telefonnummer handynummer mobilnummer kennzeichen policynumber
    hausarzt hausarztin behandler familydoctor physician nextofkin emergencycontact
    medicalrecord healthrecordnumber healthplannumber healthplanid healthplanbeneficiarynumber healthinsurancenumber
    healthinsuranceid healthcardnumber insuranceid policyid certificatenumber certificateno certificateid
    birthcertificate
    deathcertificate marriagecertificate driverslicense vehicleid vehicleidentificationnumber vehicleregistration
    licenseplate numberplate registrationplate deviceserial devicenumber serialnumber serialno implantserial
    macaddress webpage webaddress homepage profilelink biometric biometrics fingerprint fingerprints voiceprint
    faceprint palmprint retinascan irisscan iriscode facetemplate dnasequence photograph photographs photofile photoid
    photourl imagefile imageurl imagepath faceimage facephoto fullfacephoto barcode specimenid sampleid encounterid
    visitid accessionnumber claimnumber claimid
"""
_WHOLE = """
    employer vin vins mbi npi udi photo photos image picture portrait signature plates
"""
"""Words that say identifier where they are the whole name: `photo_consent` is none."""
_PERSON_NUMBERS = """
    ssn nin nino dni nie nif cif nss cpf cnpj rg codicefiscale fiscalcode matricula personalausweis sozialversicherung
    socialsecurity insurancenumber taxid steuernummer steuerid nhs nhsnumber mrn
    patient patientid patientnumber paciente pacient paziente personid subjectid recordid caseid employeeid
    customerid userid memberid studentid respondentid participantid idnumber uuid guid
    respondent participant interviewee proband befragter encuestado entrevistado intervistato enquete
    svnr svnummer sozialversicherungsnummer rentenversicherungsnummer versichertennummer versichertennr kvnr kvnummer
    krankenversichertennummer versicherungsnummer personalnummer matrikelnummer kundennummer mitgliedsnummer
"""
"""Identifiers of which each person has one, so that records that share it are of one person."""
_ROLES: Mapping[Role, str] = {
    "weight": """
        weight weights w wgt wt sampleweight samplingweight pweight fweight designweight finalwt fnlwgt peso pesos pes
        gewicht gew hhgew hgew pgew persgew pergew hochrechnungsfaktor poids ponderacion ponderation
        factorexpansion expansionfactor pondera
    """,
    "household": """
        household householdid hh hhid hid hhnr hogar llar familia famiglia nucleo agregado haushalt haushaltid menage
        foyer famid familyid dwelling dwellingid vivienda clusterid familiennummer familiennr familienid familynumber
        familyno famnr haushaltsnummer haushaltsnr haushaltsid householdnumber householdno hhnummer hhnumber hhno
        numerofamilia idfamilia numerohogar idhogar numeromenage idmenage wohnungsnummer wohnungsnr
    """,
    "stratum": "stratum strata strate estrato estrat strato schicht psu stratumid",
    "geography": "region regio regione regiao geo geography geografia nuts nuts1 nuts2 nuts3 lau",
    "quasi": """
        municipality city town county province district country state zip zipcode postcode postalcode postal
        municipio municipi ciudad ciutat provincia comarca distrito pais codigopostal cp codipostal estado barrio
        comune citta paese cap cidade concelho freguesia codigodepostal cep
        gemeinde stadt kreis bundesland land plz postleitzahl
        commune ville departement pays codepostal tract censustract
        dateofdeath deathdate deathday dayofdeath
        precinct parish neighborhood neighbourhood borough township village suburb geocode
        latitude longitude lat lon lng coordinates block blockgroup
        age ages agegroup edad edat eta idade alter sex sexo sexe sesso geschlecht gesch gender genero genere geslacht
        female male woman weiblich mannlich maennlich femme homme mujer hombre
        birth birthdate birthday birthyear dob dateofbirth yearofbirth nacimiento fechanacimiento naixement nascita
        datadinascita nascimento geburt geburtsdatum geburtsjahr naissance datenaissance birthplace
        education educ schooling educacion estudios estudis istruzione titolodistudio educacao escolaridade bildung
        schulbildung ausbildung formation diplome degree
        occupation job profession workclass employment ocupacion profesion trabajo ocupacio professione lavoro
        profissao ocupacao beruf erwerb metier emploi industry sector branch
        marital maritalstatus married estadocivil estatcivil statocivile familienstand famst etatcivil relationship
        race ethnicity ethnic raza etnia ethnie origin origen herkunft ethnicgroup
        nationality nationalitat nacionalidad nacionalitat nazionalita nacionalidade staatsangehorigkeit nationalite
        citizenship nativecountry language idioma lingua sprache langue children hijos fills figli filhos kinder
        enfants householdsize date fecha data datum admission discharge ingreso alta military veteran height
        bodyweight aufnahme entlassung grosse groesse korpergrosse koerpergroesse wohnort ort
    """,
    "sensitive": """
        income salary wage wages earnings pay pension wealth debt rent tax taxes expenditure turnover revenue profit
        ingresos renta salario sueldo ingressos sou reddito stipendio salario rendimento einkommen eink gehalt lohn
        vermogen umsatz revenu salaire capital capitalgain capitalloss savings loan credit creditscore benefit
        disease diagnosis diagnoses illness condition icd icd9 icd10 treatment medication drug therapy symptom
        enfermedad diagnostico malaltia diagnostic malattia diagnosi doenca krankheit diagnose maladie hiv cancer
        disability discapacidad disabilita invaliditat handicap bloodpressure cholesterol glucose bmi test result
        religion religio religione religiao konfession faith belief creencia party vote voto partido partit partito
        partei parti politics union sindicato sexualorientation orientation criminal conviction offence crime
        score grade note nota cost costs kosten coste cout costo custo charge charges
        health healthstatus gesundheit gesundheitszustand salud salut salute saude sante smoker smoking raucher rauchen
        diabetes diabetic diabetiker krebs tumor tumour carcinoma asthma epilepsy epilepsie stroke schlaganfall
        herzinfarkt infarct hypertension bluthochdruck dementia demenz aids infection infektion hepatitis
        pregnant pregnancy schwanger schwangerschaft embarazo gravidanza gravidez grossesse abortion abtreibung aborto
        depression depressed anxiety mental psychiatric psychisch suicide suizid suizidversuch selbstmord addiction
        sucht alcohol alkohol drugs drogen medikament medikation medicine therapie behandlung surgery operation
        disabled behinderung behindert schwerbehindert schwerbehinderung impairment pflegegrad pflegestufe carelevel
        death died dead deceased mortality survived survival alive todesursache verstorben gestorben tod muerte morte
        causeofdeath bloodgroup bloodtype blutgruppe blutdruck cholesterin blutzucker befund laborwert genetic genotype
        vorstrafe vorstrafen straftat schulden verschuldung wahlabsicht parteipraferenz gewerkschaft
        victim abuse missbrauch gewalt sick sickness sickdays sickleave krankentage krankheitstage krankenstand fehltage
        absence absences absenteeism baja bajas diag dx hdiag ndiag maindiag hauptdiag nebendiag
    """,
}

_OFTEN = frozenset(
    ["id", "identifier", "kennung", "nr", "no", "num", "number", "numero", "nummer", "code", "codigo", "key"]
)
"""Words that say identifier only where the values agree."""


_OF_BODIES = frozenset(["kg", "kgs", "lb", "lbs", "body", "birth", "nacer", "naixer", "nascita", "geburt"])
"""Words that tell the weight of a body from that of a survey."""


@cache
def _table() -> Mapping[str, Role]:
    table: dict[str, Role] = {}
    for role, words in _ROLES.items():
        for word in words.split():
            table.setdefault(word, role)
    for word in (*_IDENTIFIERS.split(), *_PERSON_NUMBERS.split()):
        table[word] = "identifier"
    return table


def parts_of(name: str) -> list[str]:
    """Split a column name into plain lower-case words: `Geburts_Datum2` → geburts, datum."""
    name = re.sub(r"(?i)\bn\s?[°º˚]", " no ", name.replace("ß", "ss"))
    flat = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    flat = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", flat)
    return [part for part in re.split(r"[^a-z]+", flat.lower()) if part]


_AGES = frozenset(["age", "ages", "edad", "edat", "eta", "idade", "alter", "lebensalter"])
_BIRTHS = ("birth", "born", "dob", "nacimiento", "naixement", "nascita", "nascimento", "geburt", "naissance")
_LONG = 5
"""Shorter words are not looked for at the end of longer ones: percentage is no age, capacity no city."""


_HOW_OLD = re.compile(
    r"how old (?:are|is) |wie alt (?:sind|bist|ist) |cuantos anos tiene|quants anys te|quanti anni ha|quantos anos tem"
    r"|quel age avez"
)


def says_age(column: str) -> bool:
    """Tell whether a column name says age in years, or a label asks for it."""
    parts = parts_of(column)
    return any(part in _AGES for part in parts) or bool(_HOW_OLD.search(" ".join(parts) + " "))


def asks_age(label: str) -> bool:
    """Tell whether a label of any length is about an age: it asks how old somebody is, or begins or ends with age."""
    parts = parts_of(label)
    return bool(parts) and says_age(label) and (says_age(f"{parts[0]} {parts[-1]}") or not {*parts} & _AGES)


def says_birth(column: str) -> bool:
    """Tell whether a column name says when somebody was born."""
    return any(part.startswith(word) for part in parts_of(column) for word in _BIRTHS)


def says_postal_code(column: str) -> bool:
    """Tell whether a column name says postal code."""
    parts = parts_of(column)
    return bool({"".join(parts), *parts} & _POSTAL)


def says_sex(column: str) -> bool:
    """Tell whether a column name says sex or gender."""
    return any(part in _SEXES for part in parts_of(column))


_SEXES = frozenset(
    [
        *["sex", "sexo", "sexe", "sesso", "geschlecht", "gesch", "gender", "genero", "genere", "geslacht"],
        *["female", "male", "woman", "weiblich", "mannlich", "maennlich", "femme", "homme", "mujer", "hombre"],
    ]
)
_POSTAL = frozenset(
    [
        *[
            "zip",
            "zipcode",
            "postcode",
            "postalcode",
            "postal",
            "codigopostal",
            "cp",
            "codipostal",
            "cap",
            "cep",
            "plz",
        ],
        *["codigodepostal", "postleitzahl", "codepostal"],
    ]
)


def role_in_name(column: str) -> tuple[Role, str] | None:
    """Give the role a column name suggests and the word it goes by; joined words count before single ones."""
    found = _role(parts_of(column))
    if found is not None and found[0] == "weight" and set(parts_of(column)) & _OF_BODIES:
        return "sensitive", found[1]
    return found


def _role(parts: list[str]) -> tuple[Role, str] | None:
    table = _table()
    if (whole := "".join(parts)) in _WHOLE.split():
        return "identifier", whole
    joined = ["".join(parts[i:j]) for i in range(len(parts)) for j in range(len(parts), i + 1, -1)]
    for word in [whole, *joined]:
        if word in table:
            return table[word], word
    found = [(table[part], part) for part in parts if part in table]
    if not found:
        return _compound(parts)
    tail = set(parts) & _OFTEN
    if tail and (household := [hit for hit in found if hit[0] in ("household", "stratum")]):
        return household[0]
    return found[0] if len({role for role, _ in found}) == 1 else _mixed(found)


def _compound(parts: list[str]) -> tuple[Role, str] | None:
    """Find a word at the end of a longer one, as German writes them: `Patientenname`, `Hauptdiagnose`."""
    table = _table()
    for part in reversed(parts):
        for end in [part[start:] for start in range(1, len(part) - _LONG + 1)] + ["name"] * part.endswith("name"):
            role = table.get(end)
            if role in ("identifier", "quasi", "sensitive", "geography"):  # overweight is no weight of a survey
                return role, end
    return None


_MONEY = """
    income salary wage wages earnings ingresos renta salario sueldo ingressos reddito stipendio rendimento einkommen
    eink gehalt lohn revenu salaire
"""
"""Words beside which others tell the kind of income: `eink_erwerb` is no employment."""


def _mixed(found: list[tuple[Role, str]]) -> tuple[Role, str]:
    """Prefer what the last word says (`patient age` is an age), and anything to an identifier; income is income."""
    if money := [hit for hit in found if hit[1] in _MONEY.split()]:
        return money[0]
    return next((hit for hit in reversed(found) if hit[0] != "identifier"), found[-1])


def says_number(column: str) -> bool:
    """Tell whether a column name ends in a word such as id or number."""
    parts = parts_of(column)
    return bool(parts) and (parts[-1] in _OFTEN or parts[0] == "id")


def is_whole_name(column: str, word: str) -> bool:
    """Tell whether a word is all that a column name says."""
    return "".join(parts_of(column)) == word


_PEOPLE = """
    p person persons personen pers persona personas persones pessoa personne pat patient patients patienten patientin
    paciente pacient paziente client clients klient klienten cliente kunde kunden customer user usuario utente member
    mitglied mitglieds membre student students studierende studierenden schuler schueler alumno aluno etudiant proband
    probanden vp teilnehmer participant respondent resp subject subj befragte befragten befragter befragungs
    encuestado entrevistado intervistato enquete interviewee versicherte versicherten assure employee mitarbeiter
    personal empleado employe salarie individual individuo individu indiv case fall caso cas
    medicalrecord medrec healthrecord chart beneficiary healthplanbeneficiary subscriber enrollee insured policyholder
    medicare medicaid
"""
_NUMBERS = """
    id nr no num number numero nummer code codigo codi codice key clave cle schlussel schluessel kennung kennziffer
    kennnummer kennzahl ident identifier identifiant identificador identificacion identificatore identificativo
    identification identifikation identifikator identifikationsnummer pseudonym pseudonyme pseudonimo pseudo
"""
_IDS = frozenset(["id", "ids", "idnr", "idno", "idnum", "idnummer", "idnumber", "idcode", "idkey"])
"""Names that say number and nothing of what; inside longer names they may be of anything."""


@cache
def _person_number() -> re.Pattern[str]:
    people, numbers = ("|".join(sorted(words.split(), key=len, reverse=True)) for words in (_PEOPLE, _NUMBERS))
    return re.compile(
        rf"(?:lfd)?(?:{people})(?:{numbers})+|(?:{numbers})(?:de|del|dela|dell|della|do|da|du|der|des|la|le)?(?:{people})"
        rf"|(?:pseudonym[eo]?|pseudonimo)(?:{numbers})?"
    )


_GIVEN = """
    james john robert michael william david richard joseph thomas charles christopher daniel matthew anthony mark paul
    steven andrew kevin brian george edward peter frank jack henry samuel benjamin mary patricia jennifer linda
    elizabeth barbara susan jessica sarah karen lisa nancy margaret sandra ashley emily donna michelle laura helen anna
    emma grace hans klaus jurgen jürgen wolfgang werner uwe stefan andreas martin lukas felix jonas ursula monika petra
    sabine claudia birgit julia lena jose josé juan antonio manuel francisco luis carlos miguel pedro javier carmen
    maria maría ana isabel pilar dolores lucia lucía jordi marc montserrat núria nuria giuseppe giovanni mario luigi
    marco paolo giulia francesca rosa angela joão joao paulo tiago rui catarina ines inês beatriz jean pierre michel
    philippe alain nicolas marie nathalie isabelle sylvie catherine françoise monique clara eva david hugo ben
"""


@cache
def names_of_people() -> str:
    """Give the regular expression of a whole name that has a common given name: `Anna Lopez`, `Lopez, Anna M.`."""
    given = "(?i:" + "|".join(dict.fromkeys(_GIVEN.split())) + ")"
    word = r"\p{L}[\p{L}'’.-]*"
    title = r"(?:(?i:mr|mrs|ms|dr|prof|herr|frau|sr|sra)\.? )?"
    return rf"^{title}{given}(?: {word}){{1,3}}$|^{word}(?: {word})?, {given}(?: {word})?$"


def says_person_number(text: str) -> bool:
    """Tell whether a name or a label says the number, code or pseudonym of a person (or of a case), in any writing."""
    parts = parts_of(text)
    if (whole := "".join(parts)) in _IDS or whole in _PERSON_NUMBERS.split():
        return True
    joined = {"".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1)} - {"pcode"}
    numbers = {*_PERSON_NUMBERS.split()} - {*_PEOPLE.split()}
    return any(word in numbers or _person_number().fullmatch(word) for word in joined)


def names_person(word: str) -> bool:
    """Tell whether a word that gave a name its role is one for a person (patient) or for the number of one."""
    return word in _PERSON_NUMBERS.split()
